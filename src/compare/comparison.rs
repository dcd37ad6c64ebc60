//! All tensors of a run compared, and the ways to look at them: by kind, by layer, by step.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Greedy, LogitsResult, Summary, TensorResult};

/// Everything that comparing one run gives.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Comparison {
    /// One result per tensor, in the order of the reference's graph; extras last or where they were met.
    pub results: Vec<TensorResult>,
    /// One per row of output, in order.
    pub logits: Vec<LogitsResult>,
}

/// The first tensor that failed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FirstDifference<'a> {
    /// Which.
    pub result: &'a TensorResult,
    /// How many later tensors failed as well.
    pub later_failures: usize,
}

/// All tensors of one kind that one operator made.
#[derive(Clone, PartialEq, Debug)]
pub struct KindRow<'a> {
    /// The name without its layer.
    pub kind: &'a str,
    /// The operator.
    pub op: &'a str,
    /// How many layers have it.
    pub layers: usize,
    /// How many tensors they are.
    pub tensors: usize,
    /// How many of them failed.
    pub failures: usize,
    /// The worst of them.
    pub worst: &'a TensorResult,
}

/// The worst share of the limit in one layer; infinite if a tensor failed without one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LayerWorst {
    /// The layer.
    pub layer: u32,
    /// Its worst share.
    pub share: f64,
}

/// The worst tensor of one step.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StepWorst<'a> {
    /// The step.
    pub step: u32,
    /// Its worst share, infinite if a tensor failed without one.
    pub share: f64,
    /// Which tensor has it.
    pub result: &'a TensorResult,
}

impl Comparison {
    /// The counts.
    pub fn summary(&self) -> Summary {
        Summary::of(&self.results)
    }

    /// Whether something was compared, nothing failed, and no row of logits chooses another token than the reference for another
    /// reason than noise.
    pub fn is_pass(&self) -> bool {
        self.summary().is_pass() && self.first_other_token().is_none()
    }

    /// The first row of logits that chooses another token than the reference, where noise does not explain it.
    pub fn first_other_token(&self) -> Option<&LogitsResult> {
        self.logits.iter().find(|logits| logits.greedy == Greedy::Different)
    }

    /// How many rows of logits were judged so.
    pub fn tokens(&self, greedy: Greedy) -> u64 {
        self.logits.iter().filter(|logits| logits.greedy == greedy).count() as u64
    }

    /// The first tensor, in graph order, that failed.
    pub fn first_difference(&self) -> Option<FirstDifference<'_>> {
        let mut failures = self.results.iter().filter(|r| r.verdict.is_failure());
        let result = failures.next()?;
        Some(FirstDifference { result, later_failures: failures.count() })
    }

    /// The worst of the tensors that were compared.
    pub fn worst(&self) -> Option<&TensorResult> {
        worst(self.results.iter().filter(|r| r.verdict.is_compared()))
    }

    /// One row per kind and operator: failures first, then by share of the limit, worst first.
    pub fn kinds(&self) -> Vec<KindRow<'_>> {
        let mut rows: Vec<(KindRow<'_>, BTreeSet<u32>)> = Vec::new();
        let mut row_of: HashMap<(&str, &str), usize> = HashMap::new();
        for result in &self.results {
            let (kind, op) = (result.id.kind(), result.op.as_str());
            let row = *row_of.entry((kind, op)).or_insert_with(|| {
                let row = KindRow { kind, op, layers: 0, tensors: 0, failures: 0, worst: result };
                rows.push((row, BTreeSet::new()));
                rows.len() - 1
            });
            let (row, layers) = &mut rows[row];
            row.tensors += 1;
            row.failures += usize::from(result.verdict.is_failure());
            layers.extend(result.id.layer());
            if result.cmp_severity(row.worst).is_gt() {
                row.worst = result;
            }
        }
        let mut rows: Vec<KindRow<'_>> =
            rows.into_iter().map(|(row, layers)| KindRow { layers: layers.len(), ..row }).collect();
        rows.sort_by(|a, b| b.worst.cmp_severity(a.worst)); // stable: graph order among equals
        rows
    }

    /// The worst share of each layer that has a tensor, in order of layer.
    pub fn layers(&self) -> Vec<LayerWorst> {
        let mut layers: BTreeMap<u32, f64> = BTreeMap::new();
        for result in &self.results {
            if let (Some(layer), Some(share)) = (result.id.layer(), result.severity()) {
                let worst = layers.entry(layer).or_insert(share);
                *worst = if share > *worst { share } else { *worst };
            }
        }
        layers.into_iter().map(|(layer, share)| LayerWorst { layer, share }).collect()
    }

    /// The worst tensor of each step, in order of step.
    pub fn steps(&self) -> Vec<StepWorst<'_>> {
        let mut steps: BTreeMap<u32, &TensorResult> = BTreeMap::new();
        for result in self.results.iter().filter(|r| r.severity().is_some()) {
            let worst = steps.entry(result.id.step).or_insert(result);
            if result.cmp_severity(worst).is_gt() {
                *worst = result;
            }
        }
        let share = |result: &TensorResult| result.severity().unwrap_or(f64::INFINITY);
        steps.into_iter().map(|(step, result)| StepWorst { step, share: share(result), result }).collect()
    }
}

/// The worst of some results; the first of equals.
pub fn worst<'a>(results: impl IntoIterator<Item = &'a TensorResult>) -> Option<&'a TensorResult> {
    results.into_iter().reduce(|worst, r| if r.cmp_severity(worst).is_gt() { r } else { worst })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Limit, Shaped, Verdict};
    use crate::tensor::TensorId;
    use crate::tensor::Values;

    fn result(step: u32, name: &str, op: &str, actual: f32) -> TensorResult {
        let id = TensorId { step, name: name.into(), occurrence: 0 };
        let ne = [1; 4];
        let (reference, actual) = ([1.0], [actual]);
        let reference = Shaped { ne, values: &reference[..] };
        let actual = Shaped { ne, values: Values::F32(&actual) };
        TensorResult::measure(id, op, reference, actual, None, Limit::CUMULATIVE).unwrap()
    }

    fn example() -> Comparison {
        let id = |name: &str| TensorId { step: 1, name: name.into(), occurrence: 0 };
        let results = vec![
            result(0, "l_out-0", "ADD", 1.0),
            result(0, "Qcur-1", "MUL_MAT", 1.0002),
            result(0, "Qcur-1", "ROPE", 1.0001),
            TensorResult::skipped(id("view-1"), "VIEW", [1; 4], "a view", Limit::CUMULATIVE),
            result(0, "l_out-1", "ADD", 1.5),
            TensorResult::missing(id("l_out-10"), "ADD", [1; 4], Limit::CUMULATIVE),
            result(1, "result_output", "MUL_MAT", f32::NAN),
        ];
        Comparison { results, logits: Vec::new() }
    }

    #[test]
    fn another_token_is_no_pass_unless_noise_explains_it() {
        // One logit of 16 is off by 3e-3, within the limit of 1e-3 x |x| = 4e-3; noise moves two by sqrt(2) 1e-3 x 1 = 1.4e-3.
        let of = |second: f32| {
            let mut reference = [-1.0; 16];
            (reference[0], reference[1]) = (1.0, second);
            let mut values = reference;
            values[1] += 3e-3;
            let id = TensorId { step: 0, name: "result_output".into(), occurrence: 0 };
            let ne = [16, 1, 1, 1];
            let actual = Shaped { ne, values: Values::F32(&values) };
            let shaped = Shaped { ne, values: &reference[..] };
            let result = TensorResult::measure(id, "MUL_MAT", shaped, actual, None, Limit::CUMULATIVE);
            let logits = LogitsResult::measure(0, 0, &reference, Values::F32(&values), Limit::CUMULATIVE);
            Comparison { results: vec![result.unwrap()], logits: vec![logits.unwrap()] }
        };
        let (same, near_tie, other) = (of(0.9), of(0.999), of(0.998));
        assert_eq!(
            [&same, &near_tie, &other].map(|c| c.logits[0].greedy),
            [Greedy::Equal, Greedy::NearTie, Greedy::Different]
        );
        assert!(same.is_pass() && near_tie.is_pass());
        assert!(other.summary().is_pass() && !other.is_pass());
        assert_eq!((near_tie.tokens(Greedy::NearTie), near_tie.tokens(Greedy::Equal)), (1, 0));
    }

    #[test]
    fn the_first_difference_is_in_graph_order_not_the_largest() {
        let c = example();
        let first = c.first_difference().unwrap();
        assert_eq!((first.result.id.name.as_str(), first.later_failures), ("l_out-1", 2));
        assert!(!c.summary().is_pass());
        assert_eq!(Comparison::default().first_difference(), None);
    }

    #[test]
    fn kinds_are_grouped_by_operator_and_failures_come_first() {
        let c = example();
        let rows: Vec<_> =
            c.kinds().iter().map(|r| (r.kind, r.op, r.layers, r.tensors, r.failures)).collect();
        assert_eq!(
            rows,
            [
                ("l_out", "ADD", 3, 3, 2), // layers 0, 1 and 10
                ("result_output", "MUL_MAT", 0, 1, 1),
                ("Qcur", "MUL_MAT", 1, 1, 0),
                ("Qcur", "ROPE", 1, 1, 0),
                ("view", "VIEW", 1, 1, 0),
            ]
        );
        assert_eq!(c.kinds()[0].worst.verdict, Verdict::Missing);
    }

    #[test]
    fn layers_and_steps_show_their_worst() {
        let c = example();
        let layers: Vec<(u32, bool)> = c.layers().iter().map(|l| (l.layer, l.share > 1.0)).collect();
        assert_eq!(layers, [(0, false), (1, true), (10, true)]);
        let steps: Vec<(u32, &str)> = c.steps().iter().map(|s| (s.step, s.result.id.name.as_str())).collect();
        assert_eq!(steps, [(0, "l_out-1"), (1, "l_out-10")]);
        assert_eq!(c.worst().unwrap().id.name, "result_output"); // missing was not compared
    }
}
