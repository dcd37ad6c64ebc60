//! One kind of tensor step by step and layer by layer: the residual stream shows at which step an error enters.

use std::collections::{BTreeMap, BTreeSet};

use super::{Comparison, TensorResult};

/// One step's tensors of a kind.
#[derive(Clone, PartialEq, Debug)]
pub struct StepRow<'a> {
    /// The step.
    pub step: u32,
    /// The worst [`TensorResult::carried`] in each layer of [`ByStep::layers`], infinite if a tensor failed without a share; none
    /// where the step has no such tensor.
    pub shares: Vec<Option<f64>>,
    /// The worst of them.
    pub worst: &'a TensorResult,
    /// The first of them, in graph order, that failed.
    pub first_failure: Option<&'a TensorResult>,
}

/// All steps that have a tensor of a kind.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ByStep<'a> {
    /// The layers that have one at any step, ascending.
    pub layers: Vec<u32>,
    /// One per step, ascending.
    pub rows: Vec<StepRow<'a>>,
}

impl ByStep<'_> {
    /// The first step in which a tensor failed.
    pub fn first_failure(&self) -> Option<&StepRow<'_>> {
        self.rows.iter().find(|row| row.first_failure.is_some())
    }
}

impl Comparison {
    /// The tensors of a kind (`l_out`) by step and layer. What was skipped is not among them.
    pub fn by_step(&self, kind: &str) -> ByStep<'_> {
        let mut steps: BTreeMap<u32, Vec<(u32, f64, &TensorResult)>> = BTreeMap::new();
        for result in self.results.iter().filter(|result| result.id.kind() == kind) {
            if let (Some(layer), Some(share)) = (result.id.layer(), result.carried()) {
                steps.entry(result.id.step).or_default().push((layer, share, result));
            }
        }
        let layers: BTreeSet<u32> = steps.values().flatten().map(|&(layer, ..)| layer).collect();
        let layers: Vec<u32> = layers.into_iter().collect();
        let rows = steps.into_iter().filter_map(|(step, found)| {
            let first_failure = found.iter().map(|&(.., r)| r).find(|r| r.verdict.is_failure());
            let share = |layer: &u32| {
                let shares = found.iter().filter(|(of, ..)| of == layer).map(|&(_, share, _)| share);
                shares.reduce(|a, b| if b > a { b } else { a })
            };
            Some(StepRow {
                step,
                shares: layers.iter().map(share).collect(),
                worst: worst(found)?,
                first_failure,
            })
        });
        ByStep { rows: rows.collect(), layers }
    }
}

/// The first of those that carry the most; a failure is worse than any pass.
fn worst<'a>(found: Vec<(u32, f64, &'a TensorResult)>) -> Option<&'a TensorResult> {
    let key = |&(_, share, result): &(u32, f64, &'a TensorResult)| (result.verdict.is_failure(), share);
    let worse = |a, b| if key(&b) > key(&a) { b } else { a };
    found.into_iter().reduce(worse).map(|(.., result)| result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Limit, Shaped};
    use crate::tensor::{TensorId, Values};

    /// A tensor of one element whose share of the limit is `share`.
    fn result(step: u32, name: &str, share: f32) -> TensorResult {
        let id = TensorId { step, name: name.into(), occurrence: 0 };
        let reference = Shaped { ne: [1; 4], values: &[1.0][..] };
        let values = [1.0 + share * 1e-3];
        let actual = Shaped { ne: [1; 4], values: Values::F32(&values) };
        TensorResult::measure(id, "ADD", reference, actual, None, Limit::CUMULATIVE).unwrap()
    }

    #[test]
    fn each_step_has_a_share_for_each_layer_that_it_holds() {
        let id = TensorId { step: 1, name: "l_out-2".into(), occurrence: 0 };
        let results = vec![
            result(0, "l_out-0", 0.0),
            result(0, "l_out-2", 0.5),
            result(0, "attn_norm-1", 9.0),
            result(1, "l_out-0", 2.0),
            TensorResult::missing(id.clone(), "ADD", [1; 4], Limit::CUMULATIVE),
            TensorResult::skipped(TensorId { step: 2, ..id }, "ADD", [1; 4], "a view", Limit::CUMULATIVE),
            result(3, "l_out-2", 3.0),
        ];
        let comparison = Comparison { results, logits: Vec::new() };
        let by_step = comparison.by_step("l_out");
        assert_eq!(by_step.layers, [0, 2]);
        let rows = by_step.rows.iter().map(|row| {
            let shares: Vec<Option<f64>> =
                row.shares.iter().map(|share| share.map(|s| (s * 10.0).round())).collect();
            (row.step, shares, row.worst.id.name.as_str())
        });
        let infinite = f64::INFINITY;
        assert_eq!(
            rows.collect::<Vec<_>>(),
            [
                (0, vec![Some(0.0), Some(5.0)], "l_out-2"),
                (1, vec![Some(20.0), Some(infinite)], "l_out-2"),
                (3, vec![None, Some(30.0)], "l_out-2"),
            ]
        );
        let first = by_step.first_failure().unwrap();
        assert_eq!((first.step, first.first_failure.unwrap().id.name.as_str()), (1, "l_out-0"));
        assert_eq!(comparison.by_step("ffn_out"), ByStep::default());
    }
}
