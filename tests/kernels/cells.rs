//! Caches of keys and values of every type.

use half::{bf16, f16};
use lockstep::engine::gpu::launch::{Cells, CellsMut};
use lockstep::engine::gpu::{Buffer, Device};

/// What a cell holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CellType {
    F32,
    F16,
    Bf16,
}

impl CellType {
    pub(crate) const ALL: [CellType; 3] = [CellType::F32, CellType::F16, CellType::Bf16];

    /// The nearest value that a cell can hold.
    pub(crate) fn rounded(self, x: f32) -> f32 {
        match self {
            CellType::F32 => x,
            CellType::F16 => f16::from_f32(x).to_f32(),
            CellType::Bf16 => bf16::from_f32(x).to_f32(),
        }
    }
}

/// A cache on a device.
pub(crate) enum Cache {
    F32(Buffer<f32>),
    F16(Buffer<u16>),
    Bf16(Buffer<u16>),
}

impl Cache {
    /// One that holds these values, each rounded.
    pub(crate) fn upload(device: &Device, cell: CellType, values: &[f32]) -> Cache {
        let bits = |of: fn(f32) -> u16| device.upload(&values.iter().map(|&x| of(x)).collect::<Vec<_>>());
        match cell {
            CellType::F32 => Cache::F32(device.upload(values).unwrap()),
            CellType::F16 => Cache::F16(bits(|x| f16::from_f32(x).to_bits()).unwrap()),
            CellType::Bf16 => Cache::Bf16(bits(|x| bf16::from_f32(x).to_bits()).unwrap()),
        }
    }

    pub(crate) fn cells(&self) -> Cells<'_> {
        match self {
            Cache::F32(buffer) => Cells::F32(buffer.all()),
            Cache::F16(buffer) => Cells::F16(buffer.all()),
            Cache::Bf16(buffer) => Cells::Bf16(buffer.all()),
        }
    }

    pub(crate) fn cells_mut(&mut self) -> CellsMut<'_> {
        match self {
            Cache::F32(buffer) => CellsMut::F32(buffer.all_mut()),
            Cache::F16(buffer) => CellsMut::F16(buffer.all_mut()),
            Cache::Bf16(buffer) => CellsMut::Bf16(buffer.all_mut()),
        }
    }

    pub(crate) fn read(&self, device: &Device) -> Vec<f32> {
        let of_bits = |buffer: &Buffer<u16>, of: fn(u16) -> f32| {
            device.read(buffer.all()).unwrap().into_iter().map(of).collect()
        };
        match self {
            Cache::F32(buffer) => device.read(buffer.all()).unwrap(),
            Cache::F16(buffer) => of_bits(buffer, |bits| f16::from_bits(bits).to_f32()),
            Cache::Bf16(buffer) => of_bits(buffer, |bits| bf16::from_bits(bits).to_f32()),
        }
    }
}
