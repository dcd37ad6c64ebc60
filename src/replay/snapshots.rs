//! GATED_DELTA_NET with more snapshots than tokens: ggml writes those that a token fills, and the others keep what was in their
//! memory before. Only views of the result tell what was computed, so such a node is shown by its views.

use super::evaluate::{Evaluated, Run, evaluate};
use super::operands::Sources;
use crate::dump::{Dump, Node, Origin};

/// The node with no more snapshots than its tokens fill; none if all are filled. Its values are the first ones of the node's.
pub(super) fn filled(dump: &Dump, node: &Node) -> Option<Node> {
    if node.op != "GATED_DELTA_NET" {
        return None;
    }
    let v = match node.sources.get(2)?.as_ref()?.from {
        Origin::Node(id) => dump.node(id)?.ne,
        Origin::Leaf(id) => dump.leaf(id)?.ne,
    };
    with_filled(node, v)
}

/// The same, for v of extents `[d, _, n_t, n_s]`.
fn with_filled(node: &Node, [d, _, n_t, n_s]: [u64; 4]) -> Option<Node> {
    let snapshots = u64::try_from(*node.params.first()?).ok()?;
    let unfilled = snapshots.checked_sub(n_t).filter(|&unfilled| unfilled > 0)?;
    let rows = unfilled.checked_mul(d)?.checked_mul(n_s)?;
    let mut part = node.clone();
    part.params = vec![i32::try_from(n_t).ok()?];
    part.ne[1] = node.ne[1].checked_sub(rows)?;
    Some(part)
}

/// Evaluates a node, or as much of it as its tokens fill.
pub(super) fn evaluated(
    dump: &Dump,
    node: &Node,
    sources: &Sources<'_>,
    held: Option<&[u8]>,
    run: &Run,
) -> Result<Evaluated, String> {
    match filled(dump, node) {
        None => evaluate(node, sources, held, run),
        Some(part) => evaluate(&part, sources, None, run).map(|part| extended(part, node)),
    }
}

/// What was evaluated of a node's first elements, with no values for those that nothing was written to.
fn extended(evaluated: Evaluated, node: &Node) -> Evaluated {
    let mut evaluated = evaluated;
    let elements = node.ne.iter().product::<u64>() as usize;
    let Evaluated { exact, inherited, .. } = &mut evaluated;
    for values in [&mut exact.values, &mut exact.terms, &mut exact.flips, inherited] {
        if !values.is_empty() {
            values.resize(elements, f64::NAN);
        }
    }
    evaluated
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::Exact;
    use crate::tensor::GgmlType;

    /// d = 2, one head, one sequence, three snapshots: rows of 2 elements.
    fn node(tokens: u64) -> Node {
        Node {
            id: 0,
            step: 0,
            name: "node_55".into(),
            occurrence: 0,
            op: "GATED_DELTA_NET".into(),
            variant: None,
            params: vec![3],
            ty: GgmlType::F32,
            ne: [2, tokens + 3 * 2, 1, 1],
            nb: [4, 8, 0, 0],
            contiguous: true,
            sources: Vec::new(),
            view_of: None,
            entry: None,
        }
    }

    #[test]
    fn one_token_fills_one_snapshot() {
        let part = with_filled(&node(1), [2, 1, 1, 1]).unwrap();
        // one row of output, then a state of 2 rows
        assert_eq!((&part.params[..], part.ne), (&[1][..], [2, 3, 1, 1]));
    }

    #[test]
    fn filled_snapshots_are_left_as_they_are() {
        assert_eq!(with_filled(&node(3), [2, 1, 3, 1]), None);
        assert_eq!(with_filled(&node(4), [2, 1, 4, 1]), None);
    }

    #[test]
    fn what_is_not_filled_has_no_value() {
        let exact = Exact { values: vec![1.0], terms: vec![2.0], additions: 3.0, ..Exact::default() };
        let evaluated = Evaluated { exact, ..Evaluated::default() };
        let Evaluated { exact, inherited, .. } = extended(evaluated, &node(1));
        assert_eq!((exact.values.len(), exact.values[0]), (14, 1.0));
        assert!(exact.values[1..].iter().chain(&exact.terms[1..]).all(|value| value.is_nan()));
        assert_eq!((exact.flips.len(), inherited.len()), (0, 0));
    }
}
