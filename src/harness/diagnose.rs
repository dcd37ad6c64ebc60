//! The shape of an error in a tensor of a dump: what the graph tells of its axes, its input, and which other tensors its values may
//! be.

use std::borrow::Cow;

use super::HarnessError;
use crate::compare::{
    Axis, Comparison, Finding, Limit, Other, Pair, Shaped, TensorResult, Verdict, diagnose,
};
use crate::dump::{Dump, Node, Origin};
use crate::tensor::{GgmlType, Layout, TensorId, Values};

/// What to look at when two dumps are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which<'a> {
    /// The first named tensor in graph order that differs beyond the cumulative limit.
    First,
    /// Every one that does.
    All,
    /// Those of this name, at this step or at all, if their values are not equal.
    Named(&'a str, Option<u32>),
}

/// Compares every named tensor of two dumps of the same tokens, and diagnoses those that are asked for. What the reference holds
/// and the actual dump does not is missing.
///
/// # Errors
/// If the dumps are damaged or of different tokens, or no tensor is to be compared.
pub fn diagnose_dumps(reference: &Dump, actual: &Dump, which: Which<'_>) -> Result<Comparison, HarnessError> {
    reference.verify()?;
    actual.verify()?;
    let schedules = reference.manifest().run.same_schedule(&actual.manifest().run);
    schedules.map_err(|difference| HarnessError::OtherSchedule {
        dump: reference.path().to_owned(),
        other: actual.path().to_owned(),
        difference: Box::new(difference),
    })?;
    let is_wanted = |node: &Node| match which {
        Which::Named(name, step) => node.name == name && step.is_none_or(|step| node.step == step),
        Which::First | Which::All => node.is_named() && !node.is_cache_view(),
    };
    let mut comparison = Comparison::default();
    let mut is_first = true;
    for node in reference.nodes() {
        if !is_wanted(node) || node.ty != GgmlType::F32 || node.ne.contains(&0) {
            continue;
        }
        let Some(values) = reference.f32(node)? else { continue };
        let (op, limit) = (reference.root_op(node), Limit::CUMULATIVE);
        let own = actual.find(&node.id()).filter(|own| own.ty == GgmlType::F32);
        let own = match own {
            Some(own) => actual.f32(own)?.map(|values| (own.ne, values)),
            None => None,
        };
        let Some((ne, own)) = own else {
            comparison.results.push(TensorResult::missing(node.id(), op, node.ne, limit));
            continue;
        };
        let own = Values::F32(&own);
        let shaped = Shaped { ne: node.ne, values: &*values };
        let mut result =
            TensorResult::measure(node.id(), op, shaped, Shaped { ne, values: own }, None, limit)?;
        let is_looked_at = match which {
            Which::First => is_first && result.verdict.is_failure(),
            Which::All => result.verdict.is_failure(),
            Which::Named(..) => true,
        };
        if is_looked_at && ne == node.ne {
            result.diagnosis = diagnose_node(reference, node, limit.relative_l2, &values, own)?;
            is_first = false;
        }
        comparison.results.push(result);
    }
    if comparison.results.is_empty() {
        return Err(HarnessError::NothingToCompare { dump: reference.path().to_owned() });
    }
    Ok(comparison)
}

/// Diagnoses the actual values of a node against what they should be, `reference` (the dump's own values, or exact ones), where
/// two right engines may differ by the relative L2 `limit`.
///
/// # Errors
/// If the dump is damaged, or the values are not as many as the node has.
pub fn diagnose_node(
    dump: &Dump,
    node: &Node,
    limit: f64,
    reference: &[f32],
    actual: Values<'_>,
) -> Result<Vec<Finding>, HarnessError> {
    let ubatch = dump.manifest().run.ubatches.iter().find(|ubatch| ubatch.step == node.step);
    let positions = ubatch.map_or(&[][..], |ubatch| &ubatch.positions[..]);
    let shape = Layout { ne: node.ne, nb: [0; 4] }.shape();
    let axes = axes(&node.id(), node.ne, positions.len() as u64, shape.len());
    let (input, others) = (input(dump, node)?, others(dump, node)?);
    let others: Vec<Other<'_>> = others.iter().map(|(name, values)| Other { name, values }).collect();
    let mut pair = Pair::new(reference, actual, &shape)?
        .with_axes(&axes)
        .with_limit(limit)
        .with_positions(positions)
        .with_others(&others);
    if let Some(input) = &input {
        pair = pair.with_input(input);
    }
    Ok(diagnose(&pair))
}

/// Remembers the first tensor that was diagnosed, in graph order: only the first difference is looked at, and an engine may give
/// tensors in an order of its own.
#[derive(Default)]
pub(super) struct FirstDiagnosed(Option<u32>);

impl FirstDiagnosed {
    /// Diagnoses a result that differs, if no node in front of it was.
    pub(super) fn look(
        &mut self,
        dump: &Dump,
        node: &Node,
        result: &mut TensorResult,
        reference: &[f32],
        actual: Values<'_>,
    ) -> Result<(), HarnessError> {
        if result.verdict == Verdict::Differ && self.0.is_none_or(|first| node.id < first) {
            self.0 = Some(node.id);
            result.diagnosis = diagnose_node(dump, node, result.limit, reference, actual)?;
        }
        Ok(())
    }
}

/// Tensors whose innermost extent counts heads.
const OF_HEADS: [&str; 4] = ["alpha", "a_softplus", "gate", "beta"];
/// States of the delta net: a matrix for each head.
const STATES: [&str; 4] = ["new_state", "state_predelta", "dnet_add_ch_state", "state"];

/// What each extent of a shape without leading ones counts, outermost first, by llama.cpp's names and the number of tokens.
fn axes(id: &TensorId, ne: [u64; 4], n_tokens: u64, rank: usize) -> Vec<Axis> {
    use Axis::{Cell, Channel, Head, Other, Sequence, Token};
    let kind = id.kind();
    let axes = if kind.starts_with("kq") {
        [if kind == "kqv" { Channel } else { Cell }, Token, Head, Sequence]
    } else if STATES.contains(&kind) {
        [Channel, Other, Head, Sequence]
    } else if kind.starts_with("conv_input") || kind.starts_with("conv_state") {
        [Other, Channel, Sequence, Other]
    } else if OF_HEADS.contains(&kind) && ne[1] * ne[2] == n_tokens {
        [Head, Token, Sequence, Other]
    } else if ne[2] * ne[3] == n_tokens && (n_tokens > 1 || ne[1] > 1) {
        [Channel, Head, Token, Sequence]
    } else {
        [Channel, Token, Sequence, Other]
    };
    axes.into_iter().take(rank).rev().collect()
}

/// What the operator made the tensor from, if it has as many values.
fn input<'d>(dump: &'d Dump, node: &'d Node) -> Result<Option<Cow<'d, [f32]>>, HarnessError> {
    let elements = |node: &Node| node.ne.iter().product::<u64>();
    let Origin::Node(computed) = dump.computed_by(node) else { return Ok(None) };
    let source = dump.node(computed).and_then(|computed| computed.sources.first()?.as_ref());
    let Some(Origin::Node(source)) = source.map(|source| source.from) else { return Ok(None) };
    match dump.node(source) {
        Some(source) if source.ty == GgmlType::F32 && elements(source) == elements(node) => {
            Ok(dump.f32(source)?)
        }
        _ => Ok(None),
    }
}

/// Tensors with their names.
type Others<'d> = Vec<(String, Cow<'d, [f32]>)>;

/// Tensors with names and as many values: all of the same step, and the same one of earlier steps.
fn others<'d>(dump: &'d Dump, node: &Node) -> Result<Others<'d>, HarnessError> {
    let elements = |node: &Node| node.ne.iter().product::<u64>();
    let mut others = Vec::new();
    for other in dump.nodes() {
        let is_same = other.name == node.name && other.occurrence == node.occurrence;
        let is_candidate = if other.step == node.step { !is_same } else { is_same && other.step < node.step };
        if !is_candidate
            || !other.is_named()
            || other.ty != GgmlType::F32
            || elements(other) != elements(node)
        {
            continue;
        }
        if let Some(values) = dump.f32(other)? {
            let occurrence =
                if other.occurrence > 0 { format!(" #{}", other.occurrence) } else { String::new() };
            let step =
                if other.step == node.step { String::new() } else { format!(" of step {}", other.step) };
            others.push((format!("{}{occurrence}{step}", other.name), values));
        }
    }
    Ok(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_by_name_and_by_the_number_of_tokens() {
        let of = |name: &str, ne: [u64; 4], n_tokens: u64| {
            let id = TensorId { step: 0, name: name.into(), occurrence: 0 };
            let rank = Layout { ne, nb: [0; 4] }.shape().len();
            axes(&id, ne, n_tokens, rank)
        };
        use Axis::{Cell, Channel, Head, Other, Token};
        assert_eq!(of("l_out-3", [256, 3, 1, 1], 3), [Token, Channel]);
        assert_eq!(of("l_out-3", [256, 1, 1, 1], 1), [Channel]);
        assert_eq!(of("Qcur-3", [32, 12, 3, 1], 3), [Token, Head, Channel]);
        assert_eq!(of("Qcur-3", [32, 12, 1, 1], 1), [Head, Channel]);
        assert_eq!(of("kq-3", [256, 3, 12, 1], 3), [Head, Token, Cell]);
        assert_eq!(of("new_state-0", [16, 16, 24, 1], 3), [Head, Other, Channel]);
        assert_eq!(of("alpha-0", [24, 3, 1, 1], 3), [Token, Head]);
    }
}
