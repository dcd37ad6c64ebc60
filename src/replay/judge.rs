//! One node: what the reference computed against the exact result.

use super::bits::{self, Bits};
use super::evaluate::Evaluated;
use super::stored::{held as values_of, stored};
use crate::compare::{U, budget};
use crate::dump::Node;
use crate::ops::exact::Rounding;
use crate::tensor::{GgmlType, Layout, TensorId, Values, gather};

/// How a node ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Every element is within its budget.
    Within,
    /// An element is not.
    Over,
    /// An element of the reference is not finite where the exact one is, or the other way round; or one is NaN, even if both
    /// are. (Equal infinities are a mask.)
    NonFinite,
    /// It could not be evaluated, for this reason.
    Skipped(String),
}

/// What replaying one node gave.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeResult {
    /// Which tensor.
    pub id: TensorId,
    /// Its operator, with the variant: `UNARY SILU`.
    pub op: String,
    /// The types of its first two sources.
    pub types: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The rounding on purpose that the exact value was computed with.
    pub rounding: Rounding,
    /// Every value is zero, the reference's and the exact one: equal, and no evidence.
    pub is_zero: bool,
    /// Elements that took the other side of a purposeful rounding at a tie.
    pub flips: u64,
    /// Elements that chose another index than the first of an equal score, or of one as near as is known.
    pub ties: u64,
    /// Largest error over terms, in units of u = 2^-24; infinite for an error without terms.
    pub scaled_error: f64,
    /// Largest share of the budget that an element uses; infinite for an error without a budget.
    pub share: f64,
    /// Flat index of the element with that share.
    pub worst_index: u64,
    /// The reference's value there.
    pub reference: f64,
    /// The exact value there; to the bit, the one that its arithmetic gives.
    pub exact: f64,
    /// How the bits compare; none in exact arithmetic.
    pub bits: Option<Bits>,
}

/// What a result is about: the tensor that is shown, and the operator that computed it.
pub(super) struct About {
    pub(super) id: TensorId,
    pub(super) op: String,
    pub(super) types: String,
    pub(super) ty: GgmlType,
}

/// Of one number per element of a node, those that a view of it shows; nothing of nothing.
pub(super) fn pick(values: &[f64], node: &Node, view: &Node) -> Result<Vec<f64>, String> {
    if values.is_empty() {
        return Ok(Vec::new());
    }
    if node.ty.block_elements() != 1 {
        return Err(format!("a view of a result of type {} is not evaluated", node.ty));
    }
    let element = node.ty.block_bytes() as u64;
    // The same strides in elements of f64.
    let widen = |bytes: u64| bytes / element * size_of::<f64>() as u64;
    let offset = |node: &Node| node.view_of.as_ref().map_or(0, |view| view.offset);
    let outside = || format!("{} does not lie within {}", view.name, node.name);
    let offset = offset(view).checked_sub(offset(node)).ok_or_else(outside)?;
    let layout = Layout { ne: view.ne, nb: view.nb.map(widen) };
    let picked = gather(bytemuck::cast_slice(values), &layout, widen(offset), size_of::<f64>());
    let picked = picked.map_err(|error| error.to_string())?;
    Ok(picked.as_chunks::<8>().0.iter().map(|bytes| f64::from_ne_bytes(*bytes)).collect())
}

/// A node that could not be evaluated.
pub(super) fn skipped(about: About, reason: String) -> NodeResult {
    NodeResult {
        id: about.id,
        op: about.op,
        types: about.types,
        outcome: Outcome::Skipped(reason),
        rounding: Rounding::None,
        is_zero: false,
        flips: 0,
        ties: 0,
        scaled_error: 0.0,
        share: 0.0,
        worst_index: 0,
        reference: 0.0,
        exact: 0.0,
        bits: None,
    }
}

/// The largest share of its budget that an element uses; infinite if the values cannot be compared.
pub(super) fn share(ty: GgmlType, held: &[u8], evaluated: &Evaluated) -> f64 {
    let id = TensorId { step: 0, name: String::new(), occurrence: 0 };
    let about = About { id, op: String::new(), types: String::new(), ty };
    let result = judge(about, held, evaluated);
    if matches!(result.outcome, Outcome::Skipped(_)) { f64::INFINITY } else { result.share }
}

/// Compares the values that the dump holds with the exact ones.
pub(super) fn judge(about: About, held: &[u8], evaluated: &Evaluated) -> NodeResult {
    let ty = about.ty;
    if evaluated.to_the_bit {
        return bits::judge(
            skipped(about, String::new()),
            ty,
            held,
            &evaluated.exact.values,
            evaluated.kernel,
        );
    }
    match values_of(ty, held, evaluated.exact.values.len()) {
        Ok(reference) => {
            judge_values(skipped(about, String::new()), ty, Values::F64(&reference), evaluated, &[])
        }
        Err(reason) => skipped(about, reason),
    }
}

/// Compares values with the exact ones; `allowed` is what each may be off beyond its budget, empty for nothing.
pub(super) fn judge_values(
    about: NodeResult,
    ty: GgmlType,
    values: Values<'_>,
    evaluated: &Evaluated,
    allowed: &[f64],
) -> NodeResult {
    let Evaluated { exact, rounding, inherited, kernel, .. } = evaluated;
    let settled = exact.choice.as_ref().map(|choice| choice.settle(values));
    let right = settled.as_ref().map_or(&exact.values, |settled| &settled.values);
    let moved = match exact.additions {
        0.0 => match stored(ty, right, *kernel) {
            Ok(values) => Some(values),
            Err(reason) => return NodeResult { outcome: Outcome::Skipped(reason), ..about },
        },
        _ => None,
    };
    let mut result = NodeResult {
        outcome: Outcome::Within,
        rounding: *rounding,
        is_zero: true,
        flips: 0,
        ties: settled.as_ref().map_or(0, |settled| settled.ties),
        scaled_error: 0.0,
        share: 0.0,
        worst_index: 0,
        reference: 0.0,
        exact: 0.0,
        ..about
    };
    for (i, (&value, &terms)) in exact.values.iter().zip(&exact.terms).enumerate() {
        // As many values as exact ones: the caller has checked the shape; what is missing is not finite.
        let reference = values.get(i).unwrap_or(f64::NAN);
        let value = moved.as_ref().map_or(value, |moved| moved[i]);
        result.is_zero &= reference == 0.0 && value == 0.0;
        if reference.is_finite() != value.is_finite() || reference.is_nan() || value.is_nan() {
            let at =
                NodeResult { worst_index: i as u64, reference, exact: value, share: f64::INFINITY, ..result };
            return NodeResult { outcome: Outcome::NonFinite, scaled_error: f64::INFINITY, ..at };
        }
        if reference == value {
            continue;
        }
        let extra = |more: &[f64]| more.get(i).copied().unwrap_or(0.0);
        let inherited = extra(inherited) + extra(allowed);
        let budget = budget(terms, exact.additions) + inherited;
        let mut error = (reference - value).abs();
        let flip = extra(&exact.flips);
        if flip > 0.0 && error > budget {
            // What is left beyond the step is judged like any error.
            error = largest(0.0, error - flip);
            result.flips += 1;
        }
        let own = largest(0.0, error - inherited);
        let scaled = if own == 0.0 { 0.0 } else { own / terms / U };
        result.scaled_error = largest(result.scaled_error, scaled);
        let share = largest(0.0, error / budget);
        if share > result.share {
            result = NodeResult { share, worst_index: i as u64, reference, exact: value, ..result };
        }
    }
    if !(0.0..=1.0).contains(&result.share) {
        result.outcome = Outcome::Over;
    }
    result
}

/// The larger one, infinite if the new value is NaN.
fn largest(so_far: f64, value: f64) -> f64 {
    let value = if value.is_nan() { f64::INFINITY } else { value };
    if value > so_far { value } else { so_far }
}

/// A node's operator, with its variant.
pub(super) fn op_of(node: &Node) -> String {
    match &node.variant {
        Some(variant) => format!("{} {variant}", node.op),
        None => node.op.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::Exact;

    #[test]
    fn a_moved_value_is_compared_as_the_type_of_the_result_holds_it() {
        let exact = |values: &[f64]| Exact {
            values: values.to_vec(),
            terms: vec![0.0; values.len()],
            ..Exact::default()
        };
        let outcome = |ty, held: &[u8], values: &[f64]| {
            let about = About {
                id: TensorId { step: 0, name: "cache".into(), occurrence: 0 },
                op: "SET_ROWS".into(),
                types: String::new(),
                ty,
            };
            let evaluated = Evaluated { exact: exact(values), ..Evaluated::default() };
            judge(about, held, &evaluated).outcome
        };
        let half = |x: f32| half::f16::from_f32(x).to_le_bytes();
        assert_eq!(outcome(GgmlType::F16, &half(2048.0), &[2049.0]), Outcome::Within);
        assert_eq!(outcome(GgmlType::F16, &half(2050.0), &[2049.0]), Outcome::Over);
        // Q8_0 with d = 2: 254 is 127, 5 is 2
        let mut values = [0.0; 32];
        values[..2].copy_from_slice(&[254.0, 5.0]);
        let mut block = [0u8; 34];
        block[..2].copy_from_slice(&half(2.0));
        block[2..4].copy_from_slice(&[127, 2]);
        assert_eq!(outcome(GgmlType::Q8_0, &block, &values), Outcome::Within);
        block[3] = 3;
        assert_eq!(outcome(GgmlType::Q8_0, &block, &values), Outcome::Over);
        assert!(matches!(outcome(GgmlType::Q5_0, &[0; 22], &[0.0; 32]), Outcome::Skipped(_)));
    }
}
