//! Rows of keys or values in the type that they are kept in.

use std::ops::Range;

use half::{bf16, f16};

use super::launch::{Cells, CellsMut};
use super::{Buffer, Device, GpuError};
use crate::tensor::GgmlType;

/// Rows of keys or values, one for each cell.
pub(super) enum CacheRows {
    F32(Buffer<f32>),
    F16(Buffer<u16>),
    Bf16(Buffer<u16>),
}

impl CacheRows {
    /// Room for `n` elements, all zero, in a type that [`crate::engine::Numerics::check`] lets through.
    pub(super) fn zeros(device: &Device, ty: GgmlType, n: usize) -> Result<CacheRows, GpuError> {
        Ok(match ty {
            GgmlType::F16 => CacheRows::F16(device.zeros(n)?),
            GgmlType::BF16 => CacheRows::Bf16(device.zeros(n)?),
            _ => CacheRows::F32(device.zeros(n)?),
        })
    }

    /// Elements.
    pub(super) fn len(&self) -> usize {
        match self {
            CacheRows::F32(rows) => rows.len(),
            CacheRows::F16(rows) | CacheRows::Bf16(rows) => rows.len(),
        }
    }

    pub(super) fn part(&self, range: Range<usize>) -> Cells<'_> {
        match self {
            CacheRows::F32(rows) => Cells::F32(rows.part(range)),
            CacheRows::F16(rows) => Cells::F16(rows.part(range)),
            CacheRows::Bf16(rows) => Cells::Bf16(rows.part(range)),
        }
    }

    pub(super) fn all_mut(&mut self) -> CellsMut<'_> {
        match self {
            CacheRows::F32(rows) => CellsMut::F32(rows.all_mut()),
            CacheRows::F16(rows) => CellsMut::F16(rows.all_mut()),
            CacheRows::Bf16(rows) => CellsMut::Bf16(rows.all_mut()),
        }
    }

    /// The values of some elements.
    pub(super) fn read(&self, device: &Device, range: Range<usize>) -> Result<Vec<f32>, GpuError> {
        Ok(match self {
            CacheRows::F32(rows) => device.read(rows.part(range))?,
            CacheRows::F16(rows) => {
                device.read(rows.part(range))?.into_iter().map(|x| f16::from_bits(x).to_f32()).collect()
            }
            CacheRows::Bf16(rows) => {
                device.read(rows.part(range))?.into_iter().map(|x| bf16::from_bits(x).to_f32()).collect()
            }
        })
    }

    /// Puts values in the place of those from element `at` on.
    pub(super) fn write(&mut self, device: &Device, at: usize, values: &[f32]) -> Result<(), GpuError> {
        let range = at..at + values.len();
        match self {
            CacheRows::F32(rows) => device.write(&mut rows.part_mut(range), values),
            CacheRows::F16(rows) => {
                let bits: Vec<u16> = values.iter().map(|&x| f16::from_f32(x).to_bits()).collect();
                device.write(&mut rows.part_mut(range), &bits)
            }
            CacheRows::Bf16(rows) => {
                let bits: Vec<u16> = values.iter().map(|&x| bf16::from_f32(x).to_bits()).collect();
                device.write(&mut rows.part_mut(range), &bits)
            }
        }
    }

    /// Makes all rows zero.
    pub(super) fn clear(&mut self, device: &Device) -> Result<(), GpuError> {
        match self {
            CacheRows::F32(rows) => device.clear(&mut rows.all_mut()),
            CacheRows::F16(rows) | CacheRows::Bf16(rows) => device.clear(&mut rows.all_mut()),
        }
    }

    /// Takes over all rows of another cache of the same type.
    pub(super) fn copy_from(&mut self, device: &Device, other: &CacheRows) -> Result<(), GpuError> {
        match (self, other) {
            (CacheRows::F32(to), CacheRows::F32(from)) => device.copy(&mut to.all_mut(), from.all()),
            (CacheRows::F16(to), CacheRows::F16(from)) | (CacheRows::Bf16(to), CacheRows::Bf16(from)) => {
                device.copy(&mut to.all_mut(), from.all())
            }
            _ => unreachable!("all caches of keys, and all of values, are of one type"),
        }
    }
}
