//! Products with activations that are rounded in one way or another.

use super::product::{multiply, multiply_folded, transformed};
use super::{Held, Site, Stop};
use crate::ops::exact::{ActivationRounding, CpuKernel, cpu_kernel, round_activation};
use crate::ops::{Rows, Tracked};
use crate::tensor::GgmlType;

impl Site<'_> {
    /// The kernel by which the machine of the run rounds activations.
    ///
    /// # Errors
    /// If it was no CPU: then other rules hold than those of [`Site::multiply_rounded`].
    pub(in crate::question) fn kernel(&self) -> Result<CpuKernel, Stop> {
        let setting = self.subject.setting();
        if setting.backend.starts_with("CUDA") {
            return Err(Stop::NotKnown(format!("to what {} rounds activations", setting.backend)));
        }
        Ok(cpu_kernel(&setting.system_info))
    }

    /// The type in which the reference ran a weight: F32 where it ran the unfolded twin.
    ///
    /// # Errors
    /// If the weight has no decoder.
    pub(in crate::question) fn type_run(&self, weight: &str) -> Result<GgmlType, Stop> {
        let (rows, _) = self.matrix(weight)?;
        Ok(if self.subject.is_of_the_twin() { GgmlType::F32 } else { rows.ty() })
    }

    /// `W x` with x rounded; of a folded weight, x is rounded where the weight that ran met it: the unfolded one in front of the
    /// transform, the file's own behind it. None if rows are not whole blocks of the rounding, or if it differs from another one by sums
    /// alone and nothing meets them.
    ///
    /// # Errors
    /// If the weight does not fit the tensor.
    pub(in crate::question) fn multiply_rounded(
        &self,
        weight: &str,
        x: &Held,
        rounding: Option<ActivationRounding>,
    ) -> Result<Option<Vec<Tracked>>, Stop> {
        let (rows, scale) = self.matrix(weight)?;
        let meets_sums = self.type_run(weight)? == rows.ty() && has_minima(&rows);
        let (block, can_be) = match rounding {
            Some(ActivationRounding::Q8_0(_)) => (32, true),
            Some(ActivationRounding::Q8_1(_)) => (32, meets_sums),
            Some(ActivationRounding::Q8K) => (256, true),
            _ => (1, true),
        };
        if !can_be || !rows.n_in.is_multiple_of(block) {
            return Ok(None);
        }
        match (self.transform(weight), rounding) {
            (Err(_), rounding) => multiply((rows, scale), x, rounding).map(Some),
            (Ok(transform), None) => multiply_folded((rows, scale), x, &transform),
            (Ok(transform), rounding) if !self.subject.is_of_the_twin() => {
                multiply((rows, scale), &transformed(x, rows.n_in, &transform), rounding).map(Some)
            }
            (Ok(transform), Some(rounding)) => {
                let tokens = x.values.chunks_exact(rows.n_in);
                let values = tokens.flat_map(|row| round_activation(rounding, row).values).collect();
                multiply_folded((rows, scale), &Held { values, ..x.clone() }, &transform)
            }
        }
    }
}

/// Whether ggml-cpu's product with these rows adds up their minima apart from their codes.
fn has_minima(rows: &Rows<'_>) -> bool {
    rows.n_out > 0 && rows.minima_of_row(0, &mut vec![0.0; rows.n_in])
}
