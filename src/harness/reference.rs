//! What the reference had for a tensor.

use super::HarnessError;
use crate::dump::Dump;
use crate::tensor::{GgmlType, TensorId};

/// The reference's values of a tensor, if the dump holds it as f32.
pub(super) fn reference_of(dump: &Dump, id: &TensorId) -> Result<Option<Vec<f32>>, HarnessError> {
    match dump.find(id).filter(|node| node.ty == GgmlType::F32) {
        Some(node) => Ok(dump.f32(node)?.map(|values| values.to_vec())),
        None => Ok(None),
    }
}
