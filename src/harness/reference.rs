//! The reference's side of a check: what it had for a tensor, and its order of tensors.

use super::HarnessError;
use crate::compare::{Limit, TensorResult};
use crate::dump::Dump;
use crate::tensor::{GgmlType, TensorId};

/// The reference's values of a tensor, if the dump holds it as f32.
pub(super) fn reference_of(dump: &Dump, id: &TensorId) -> Result<Option<Vec<f32>>, HarnessError> {
    match dump.find(id).filter(|node| node.ty == GgmlType::F32) {
        Some(node) => Ok(dump.f32(node)?.map(|values| values.to_vec())),
        None => Ok(None),
    }
}

/// Whether the dump holds values of a tensor, or its graph has no such tensor, which is to be told.
pub(super) fn is_wanted(dump: &Dump, id: &TensorId) -> bool {
    dump.find(id).is_none_or(|node| dump.has_values(node))
}

/// The results in the order of the dump's graph, a missing one for each tensor that is wanted and has none, then what was too
/// much.
pub(super) fn in_graph_order(
    dump: &Dump,
    of_node: Vec<Option<TensorResult>>,
    wanted: &[bool],
    extra: Vec<TensorResult>,
) -> Vec<TensorResult> {
    let mut results = Vec::with_capacity(of_node.len());
    for ((node, result), &wanted) in dump.nodes().iter().zip(of_node).zip(wanted) {
        let missing = || TensorResult::missing(node.id(), dump.root_op(node), node.ne, Limit::CUMULATIVE);
        results.extend(result.or_else(|| wanted.then(missing)));
    }
    results.extend(extra);
    results
}

/// What errors are scaled by: the terms, and of a value that is only moved, which has none, its own size.
pub(super) fn scales(terms: &[f64], reference: &[f32]) -> Vec<f64> {
    let scale = |(&terms, &x): (&f64, &f32)| if terms == 0.0 { f64::from(x).abs() } else { terms };
    terms.iter().zip(reference).map(scale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_moved_is_scaled_by_itself() {
        assert_eq!(scales(&[2.0, 0.0, 0.0], &[9.0, -3.0, 0.0]), [2.0, 3.0, 0.0]);
    }
}
