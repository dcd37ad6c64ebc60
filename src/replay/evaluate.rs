//! The exact result of one node.

use super::ReplayError;
use super::bits::arithmetic_of;
use super::judge;
use super::operands::Sources;
use crate::arithmetic::{GGML_CPU, Ggml, Isa, Primitives};
use crate::compare::{U, budget};
use crate::dump::{Dump, Node};
use crate::ops::exact::{
    CpuKernel, Data, Exact, Executed, Invocation, ORACLES, Operand, Oracle, Oracles, Rounding, Setting,
    cpu_kernel, oracle_among,
};
use crate::tensor::GgmlType;

/// What to take for the rounding on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Assumed {
    /// The one that explains what the dump holds.
    #[default]
    Fitting,
    /// None anywhere: what is left is what the roundings amount to.
    None,
}

/// In which arithmetic nodes are evaluated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arithmetic {
    /// In f64, with what was rounded on purpose: a result is judged by its budget.
    Exact(Assumed),
    /// In that of the build of llama.cpp that made the dump: a result is judged by its bits.
    Ggml,
}

impl Default for Arithmetic {
    fn default() -> Arithmetic {
        Arithmetic::Exact(Assumed::Fitting)
    }
}

/// What holds for every node of a run.
pub(super) struct Run {
    setting: Setting,
    assumed: Assumed,
    kernel: CpuKernel,
    ggml: Option<Ggml>,
    pub(super) primitives: &'static Primitives,
    pub(super) oracles: &'static Oracles,
}

impl Run {
    /// How the run that a dump tells of was set.
    ///
    /// # Errors
    /// If the arithmetic of its build is asked for and not known.
    pub(super) fn of(dump: &Dump, arithmetic: Arithmetic) -> Result<Run, ReplayError> {
        let manifest = dump.manifest();
        let setting = Setting {
            backend: manifest.producer.backend.clone(),
            system_info: manifest.producer.system_info.clone(),
            n_threads: manifest.run.n_threads,
            repack: manifest.run.repack,
            reference_kernels: manifest.run.reference_kernels,
        };
        let kernel = cpu_kernel(&manifest.producer.system_info);
        let (assumed, ggml) = match arithmetic {
            Arithmetic::Exact(assumed) => (assumed, None),
            Arithmetic::Ggml => (Assumed::Fitting, Some(arithmetic_of(dump)?)),
        };
        Ok(Run { setting, assumed, kernel, ggml, primitives: &GGML_CPU, oracles: ORACLES })
    }

    /// The build in whose arithmetic nodes are evaluated.
    pub(super) fn isa(&self) -> Option<Isa> {
        self.ggml.map(|ggml| ggml.isa)
    }

    /// Whether nodes are evaluated in the reference's own arithmetic.
    pub(super) fn is_to_the_bit(&self) -> bool {
        self.ggml.is_some()
    }

    /// The roundings to try.
    fn roundings(&self, oracle: &dyn Oracle, invocation: &Invocation<'_>) -> Vec<Rounding> {
        match self.assumed {
            Assumed::Fitting => oracle.roundings(invocation, &self.setting),
            Assumed::None => vec![Rounding::None],
        }
    }
}

/// The exact result of a node, and the rounding on purpose that it was computed with.
#[derive(Clone, Debug)]
pub(super) struct Evaluated {
    pub(super) exact: Exact,
    pub(super) rounding: Rounding,
    /// How far each value moves by what rounding may have done in sources that the dump does not hold; empty if it holds all.
    pub(super) inherited: Vec<f64>,
    /// Which kernel of ggml-cpu stores the result, where its type has fewer digits.
    pub(super) kernel: CpuKernel,
    /// Whether these are the reference's values to the bit, and not exact ones.
    pub(super) to_the_bit: bool,
}

impl Default for Evaluated {
    /// No values.
    fn default() -> Evaluated {
        Evaluated {
            exact: Exact::default(),
            rounding: Rounding::None,
            inherited: Vec::new(),
            kernel: CpuKernel::X86,
            to_the_bit: false,
        }
    }
}

/// Operators whose every element is a monotone function of one element of each source, while the others stay: over a box of
/// inputs, such a function is farthest from its middle at a corner.
const MONOTONE: [&str; 18] = [
    "ADD",
    "ADD_ID",
    "SUB",
    "MUL",
    "SCALE",
    "CONT",
    "CPY",
    "GET_ROWS",
    "RESHAPE",
    "REPEAT",
    "PAD",
    "TRI",
    "DIAG",
    "SET",
    "UNARY NEG",
    "UNARY SOFTPLUS",
    "UNARY SIGMOID",
    "UNARY EXP",
];

/// Operators whose every element is a sum of products with one element of each source: moved by `s`, a source x moves it by no
/// more than `f(|x| + s) - f(|x|)`, all sources taken together.
const SUMS_OF_PRODUCTS: [&str; 3] = ["MUL_MAT", "SUM_ROWS", "CUMSUM"];

/// Operators that choose among scores: one that may be off makes near ties.
const CHOOSING: [&str; 2] = ["ARGSORT", "TOP_K"];

impl Evaluated {
    /// The part that a view of the node shows.
    pub(super) fn select(&self, node: &Node, view: &Node) -> Result<Evaluated, String> {
        let pick = |values: &[f64]| judge::pick(values, node, view);
        let exact = Exact {
            values: pick(&self.exact.values)?,
            terms: pick(&self.exact.terms)?,
            additions: self.exact.additions,
            flips: pick(&self.exact.flips)?,
            choice: self.exact.choice.as_ref().map(|choice| choice.showing(pick)).transpose()?,
        };
        Ok(Evaluated { exact, rounding: self.rounding, inherited: pick(&self.inherited)?, ..*self })
    }

    /// The values as a source of another node, and how far each may be from what the reference had there: its budget, what it
    /// inherited, and the rounding to f32 here.
    pub(super) fn into_source(self, ne: [u64; 4]) -> (Operand<'static>, Vec<f64>) {
        let Evaluated { exact, inherited, .. } = self;
        let slack = exact.values.iter().zip(&exact.terms).enumerate().map(|(i, (value, &terms))| {
            let inherited = inherited.get(i).copied().unwrap_or(0.0);
            budget(terms, exact.additions) + inherited + value.abs() * U
        });
        let slack = slack.collect();
        let values = exact.values.iter().map(|&value| value as f32).collect();
        (Operand { ne, data: Data::Float(values) }, slack)
    }
}

/// Evaluates a node with each rounding that the reference may have used, and keeps the first that explains what the dump
/// holds; if none does, the one that comes nearest.
pub(super) fn evaluate(
    node: &Node,
    sources: &Sources<'_>,
    held: Option<&[u8]>,
    run: &Run,
) -> Result<Evaluated, String> {
    let invocation = invocation(node, &sources.operands);
    let oracle = oracle_among(run.oracles, &invocation).map_err(|error| error.to_string())?;
    if let Some(ggml) = run.ggml {
        let executed = Executed { ggml, primitives: run.primitives, contiguous: &sources.contiguous };
        let of_f32 = |values: Vec<f32>| values.into_iter().map(f64::from).collect();
        let values = match node.ty {
            // What is an integer has been moved or chosen.
            GgmlType::I32 | GgmlType::I64 if !CHOOSING.contains(&invocation.op) => {
                oracle.exact(&invocation).map(|exact| exact.values)
            }
            _ => oracle.ggml(&invocation, &executed).map(of_f32),
        };
        let values: Vec<f64> = values.map_err(|error| error.to_string())?;
        let exact = Exact { terms: vec![0.0; values.len()], values, ..Exact::default() };
        return Ok(Evaluated { exact, kernel: run.kernel, to_the_bit: true, ..Evaluated::default() });
    }
    if let Some(derived) = sources.derived.iter().flatten().next()
        && !MONOTONE.contains(&judge::op_of(node).as_str())
        && !SUMS_OF_PRODUCTS.contains(&node.op.as_str())
        && !CHOOSING.contains(&invocation.op)
    {
        return Err(format!("a source is not in the dump: {}", derived.name));
    }
    let mut nearest: Option<(f64, Evaluated)> = None;
    let roundings = run.roundings(oracle, &invocation);
    // Where there is nothing to choose, nothing is judged here.
    let held = held.filter(|_| roundings.len() > 1);
    for rounding in roundings {
        let mut exact = oracle.exact_with(&invocation, rounding).map_err(|error| error.to_string())?;
        let inherited = match &mut exact.choice {
            None => inherited(oracle, node, sources, rounding, &exact)?,
            Some(choice) => {
                let derived = sources.derived.iter().flatten().next();
                choice.slack = derived.map_or(Vec::new(), |scores| scores.slack.clone());
                Vec::new()
            }
        };
        let evaluated = Evaluated { exact, rounding, inherited, kernel: run.kernel, to_the_bit: false };
        let share = held.map_or(0.0, |held| judge::share(node.ty, held, &evaluated));
        if nearest.as_ref().is_none_or(|(so_far, _)| share < *so_far) {
            nearest = Some((share, evaluated));
        }
        if share <= 1.0 {
            break;
        }
    }
    nearest
        .map(|(_, evaluated)| evaluated)
        .ok_or_else(|| format!("operator {}: no rounding is possible", node.op))
}

/// Whether there is only one way in which the reference can have rounded this node: one that is not held is evaluated only then.
pub(super) fn is_unambiguous(node: &Node, sources: &Sources<'_>, run: &Run) -> bool {
    let invocation = invocation(node, &sources.operands);
    oracle_among(run.oracles, &invocation).is_ok_and(|oracle| run.roundings(oracle, &invocation).len() == 1)
}

fn invocation<'a>(node: &'a Node, sources: &'a [Option<Operand<'a>>]) -> Invocation<'a> {
    let params = match (node.op.as_str(), &node.params[..]) {
        // llama.cpp of early 2026 has no parameter for the snapshots, as it always gives one.
        ("GATED_DELTA_NET", []) => &[1],
        (_, params) => params,
    };
    Invocation { op: &node.op, variant: node.variant.as_deref(), params, ne: node.ne, sources }
}

/// How far each value moves at the corners of the box that sources which are not held may lie in.
fn inherited(
    oracle: &dyn Oracle,
    node: &Node,
    sources: &Sources<'_>,
    rounding: Rounding,
    exact: &Exact,
) -> Result<Vec<f64>, String> {
    let derived: Vec<usize> =
        (0..sources.derived.len()).filter(|&index| sources.derived[index].is_some()).collect();
    if derived.is_empty() {
        return Ok(Vec::new());
    }
    if SUMS_OF_PRODUCTS.contains(&node.op.as_str()) {
        return inherited_by_sums(oracle, node, sources, rounding);
    }
    let mut inherited = vec![0.0; exact.values.len()];
    for corner in 0..1usize << derived.len() {
        let mut moved = sources.operands.clone();
        for (bit, &index) in derived.iter().enumerate() {
            let sign = if corner >> bit & 1 == 0 { 1.0 } else { -1.0 };
            if let (Some(Operand { data: Data::Float(values), .. }), Some(derived)) =
                (&mut moved[index], &sources.derived[index])
            {
                for (value, slack) in values.iter_mut().zip(&derived.slack) {
                    *value = outwards(f64::from(*value) + sign * slack, sign);
                }
            }
        }
        let corner = oracle.exact_with(&invocation(node, &moved), rounding).map_err(|e| e.to_string())?;
        for ((inherited, at_corner), value) in inherited.iter_mut().zip(&corner.values).zip(&exact.values) {
            let distance = (at_corner - value).abs();
            if distance > *inherited {
                *inherited = distance;
            }
        }
    }
    Ok(inherited)
}

/// How far each value of a sum of products can move.
fn inherited_by_sums(
    oracle: &dyn Oracle,
    node: &Node,
    sources: &Sources<'_>,
    rounding: Rounding,
) -> Result<Vec<f64>, String> {
    let mut sizes = sources.operands.clone();
    let mut moved = sources.operands.clone();
    for (index, derived) in sources.derived.iter().enumerate() {
        let (Some(Operand { data: Data::Float(sizes), .. }), Some(Operand { data: Data::Float(moved), .. })) =
            (&mut sizes[index], &mut moved[index])
        else {
            if sources.operands[index].is_none() {
                continue;
            }
            return Err(format!("a source is not in the dump, and another is no f32: {}", node.name));
        };
        sizes.iter_mut().for_each(|size| *size = size.abs());
        moved.copy_from_slice(sizes);
        for (moved, slack) in moved.iter_mut().zip(derived.iter().flat_map(|derived| &derived.slack)) {
            *moved = outwards(f64::from(*moved) + slack, 1.0);
        }
    }
    let values = |operands: &[Option<Operand<'_>>]| {
        oracle.exact_with(&invocation(node, operands), rounding).map_err(|error| error.to_string())
    };
    let (sizes, moved) = (values(&sizes)?.values, values(&moved)?.values);
    Ok(sizes.iter().zip(moved).map(|(size, moved)| moved - size).collect())
}

/// The nearest f32 that is not on the inner side.
fn outwards(value: f64, sign: f64) -> f32 {
    let rounded = value as f32;
    match (f64::from(rounded) - value) * sign {
        inside if inside < 0.0 && sign > 0.0 => rounded.next_up(),
        inside if inside < 0.0 => rounded.next_down(),
        _ => rounded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Rows;
    use crate::ops::exact::Settled;
    use crate::replay::operands::Derived;
    use crate::tensor::Values;

    /// A run in exact arithmetic.
    fn run(setting: Setting, assumed: Assumed) -> Run {
        let kernel = CpuKernel::X86;
        Run { setting, assumed, kernel, ggml: None, primitives: &GGML_CPU, oracles: ORACLES }
    }

    #[test]
    fn rounding_goes_outwards() {
        let beside = 1.0 + 2f64.powi(-30);
        assert_eq!(outwards(beside, 1.0), 1f32.next_up());
        assert_eq!(outwards(beside, -1.0), 1.0);
        assert_eq!(outwards(-beside, -1.0), -(1f32.next_up()));
        assert_eq!(outwards(0.5, 1.0), 0.5);
    }

    /// A product of 32 ones of type Q8_0 with 127 and 31 times 0.5, of which the reference says that it is `held`: the
    /// rounding that is found, and the exact value.
    fn found(assumed: Assumed, held: Option<f32>) -> (String, f64) {
        let one_as_f16 = [0x00, 0x3c];
        let row = [&one_as_f16[..], &[1; 32]].concat();
        let mut activation = vec![0.5; 32];
        activation[0] = 127.0;
        let ne = [32, 1, 1, 1];
        let weights = Rows::new(GgmlType::Q8_0, &row, 32, 1).unwrap();
        let sources = [
            Some(Operand { ne, data: Data::Weight(weights) }),
            Some(Operand { ne, data: Data::Float(activation) }),
        ];
        let node = product();
        let setting = Setting { backend: "CPU".into(), ..Setting::default() };
        let held = held.map(f32::to_le_bytes);
        let derived = vec![None; sources.len()];
        let sources = Sources { derived, operands: sources.to_vec(), contiguous: Vec::new() };
        let run = run(setting, assumed);
        let evaluated = evaluate(&node, &sources, held.as_ref().map(|held| &held[..]), &run).unwrap();
        (evaluated.rounding.to_string(), evaluated.exact.values[0])
    }

    /// A product with one element.
    fn product() -> Node {
        Node {
            id: 0,
            step: 0,
            name: "ffn_out-0".into(),
            occurrence: 0,
            op: "MUL_MAT".into(),
            variant: None,
            params: Vec::new(),
            ty: GgmlType::F32,
            ne: [1; 4],
            nb: [4; 4],
            contiguous: true,
            sources: Vec::new(),
            view_of: None,
            entry: None,
        }
    }

    #[test]
    fn a_sum_of_products_inherits_what_its_sources_may_be_off() {
        let float = |values: [f32; 2]| Some(Operand { ne: [2, 1, 1, 1], data: Data::Float(values.to_vec()) });
        let off = |slack: [f64; 2]| Some(Derived { name: String::new(), slack: slack.to_vec() });
        let inherited = |derived: Vec<Option<Derived>>| {
            let operands = vec![float([2.0, -3.0]), float([-1.0, 1.0])];
            let sources = Sources { operands, derived, contiguous: Vec::new() };
            let run = run(Setting::default(), Assumed::None);
            evaluate(&product(), &sources, None, &run).unwrap().inherited
        };
        assert!(inherited(vec![None, None]).is_empty());
        // 2 * 0.5 + 3 * 0.25
        assert_eq!(inherited(vec![None, off([0.5, 0.25])]), [1.75]);
        // |(2 + 1) (1 + 0.5) + (3 + 0) (1 + 0.25) - 2 - 3|
        assert_eq!(inherited(vec![off([1.0, 0.0]), off([0.5, 0.25])]), [3.25]);
    }

    #[test]
    fn scores_that_are_not_held_make_near_ties() {
        let settled = |slack: Option<f64>| {
            let ne = [3, 1, 1, 1];
            let operands = vec![Some(Operand { ne, data: Data::Float(vec![1.0, 1.25, 8.0]) })];
            let derived = vec![slack.map(|slack| Derived { name: String::new(), slack: vec![slack; 3] })];
            let sources = Sources { operands, derived, contiguous: Vec::new() };
            let run = run(Setting::default(), Assumed::None);
            let node = Node { op: "ARGSORT".into(), params: vec![1], ne, ty: GgmlType::I32, ..product() };
            let choice = evaluate(&node, &sources, None, &run).unwrap().exact.choice.unwrap();
            choice.settle(Values::F64(&[2.0, 0.0, 1.0]))
        };
        assert_eq!(settled(Some(0.125)), Settled { values: vec![2.0, 0.0, 1.0], ties: 2 });
        assert_eq!(settled(Some(0.0625)), Settled { values: vec![2.0, 1.0, 0.0], ties: 0 });
        assert_eq!(settled(None).ties, 0);
    }

    #[test]
    fn the_rounding_that_explains_the_reference_is_named() {
        // 0.5 becomes 0 by ties to even and 1 away from zero
        assert_eq!(found(Assumed::Fitting, Some(127.0)), ("Q8_0 x86".into(), 127.0));
        assert_eq!(found(Assumed::Fitting, Some(127.0 + 31.0)), ("Q8_0 portable".into(), 158.0));
        assert_eq!(found(Assumed::Fitting, Some(127.0 + 15.5)), ("none".into(), 142.5));
    }

    #[test]
    fn what_nothing_explains_is_told_by_the_nearest() {
        assert_eq!(found(Assumed::Fitting, Some(157.0)), ("Q8_0 portable".into(), 158.0));
        assert_eq!(found(Assumed::Fitting, Some(126.0)), ("Q8_0 x86".into(), 127.0));
    }

    #[test]
    fn no_rounding_may_be_assumed_and_nothing_held_takes_the_likeliest() {
        assert_eq!(found(Assumed::None, Some(127.0)), ("none".into(), 142.5));
        assert_eq!(found(Assumed::Fitting, None), ("Q8_0 x86".into(), 127.0));
    }
}
