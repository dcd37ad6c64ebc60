//! What a folded weight's transform may add to the rounding of its product.
//!
//! ```text
//! reference   y = W x                   W the twin's weight, rounded to f32
//! engine      y = W_file r, r = H s P x     H a tree of log2(block) additions of both signs
//! ```
//! Each element of r has terms `T = sum |x| / sqrt(block)` over its block and goes through log2(block) additions; the product
//! has terms `sum |W_file r|`. Both are granted by the same budget as any operator. That the twin's weights are rounded to f32
//! is within the budget that the operator has anyway: at most one u of its terms.

use super::HarnessError;
use crate::compare::budget;
use crate::dump::{Dump, Node, Origin};
use crate::model::{Model, Transform};

/// Per element of a node that multiplies with a folded weight, or looks up a folded table: how far an engine that evaluates the
/// fold may be from the twin's exact result, beyond the operator's own budget. Empty for every other node.
pub(super) fn allowed_by_fold(model: &Model, dump: &Dump, node: &Node) -> Result<Vec<f64>, HarnessError> {
    let Some(fold) = model.fold() else { return Ok(Vec::new()) };
    let source = |index: usize| node.sources.get(index).and_then(Option::as_ref);
    let (Some(weight), Some(input)) = (source(0), source(1)) else { return Ok(Vec::new()) };
    let name = match weight.name.as_str() {
        // A tied head of the twin is the same table, un-rotated; the engine multiplies with the folded one.
        name if matches!(weight.from, Origin::Leaf(_)) => name,
        _ => return Ok(Vec::new()),
    };
    let width = dump_width(dump, weight.from);
    let Some(transform) = fold.transform(name, width) else { return Ok(Vec::new()) };
    match node.op.as_str() {
        "MUL_MAT" => match input.from {
            Origin::Node(id) => match dump.node(id) {
                Some(input) => match dump.f32(input)? {
                    Some(x) => product(model, name, &transform, &x),
                    None => Ok(Vec::new()),
                },
                None => Ok(Vec::new()),
            },
            Origin::Leaf(_) => Ok(Vec::new()),
        },
        "GET_ROWS" => match dump.f32(node)? {
            // The table's own rows are H s x of the twin's: their terms are those of the result transformed back.
            Some(rows) => Ok(lookup(&transform, &rows, width)),
            None => Ok(Vec::new()),
        },
        _ => Ok(Vec::new()),
    }
}

/// Elements of a row of a leaf.
fn dump_width(dump: &Dump, from: Origin) -> usize {
    match from {
        Origin::Leaf(id) => dump.leaf(id).map_or(0, |leaf| leaf.ne[0] as usize),
        Origin::Node(id) => dump.node(id).map_or(0, |node| node.ne[0] as usize),
    }
}

/// `sum |x| / sqrt(block)` of each block, for each of its elements.
fn transform_terms(row: &[f64], block: usize) -> Vec<f64> {
    let scale = 1.0 / (block as f64).sqrt();
    let sums = row.chunks(block).flat_map(|block| {
        let sum: f64 = block.iter().map(|x| x.abs()).sum();
        std::iter::repeat_n(sum * scale, block.len())
    });
    sums.collect()
}

fn product(
    model: &Model,
    name: &str,
    transform: &Transform<'_>,
    x: &[f32],
) -> Result<Vec<f64>, HarnessError> {
    let rows = model.matrix(name)?;
    let scale = f64::from(model.scale(name)?).abs();
    let stages = f64::from(transform.block.max(2).ilog2());
    // Per token: the rotated activation, and what its elements may be off.
    let tokens: Vec<(Vec<f64>, Vec<f64>)> = x
        .chunks_exact(rows.n_in)
        .map(|row| {
            let mut rotated: Vec<f64> = row.iter().map(|&x| x.into()).collect();
            let mut permuted = rotated.clone();
            if let Some(permutation) = &transform.permutation {
                permutation.apply(&mut permuted);
            }
            transform.apply(&mut rotated);
            let off = transform_terms(&permuted, transform.block);
            (rotated, off.into_iter().map(|terms| budget(terms, stages)).collect())
        })
        .collect();
    let mut allowed = vec![0.0; tokens.len() * rows.n_out];
    let mut row = vec![0.0; rows.n_in];
    for n in 0..rows.n_out {
        rows.decode_row(n, &mut row);
        for (t, (rotated, off)) in tokens.iter().enumerate() {
            let (mut terms, mut moved) = (0.0, 0.0);
            for ((&w, x), off) in row.iter().zip(rotated).zip(off) {
                let w = f64::from(w).abs() * scale;
                terms += w * x.abs();
                moved += w * off;
            }
            allowed[t * rows.n_out + n] = budget(terms, rows.n_in as f64) + moved;
        }
    }
    Ok(allowed)
}

fn lookup(transform: &Transform<'_>, rows: &[f32], width: usize) -> Vec<f64> {
    let stages = f64::from(transform.block.max(2).ilog2());
    let allowed = rows.chunks_exact(width.max(1)).flat_map(|row| {
        // H is its own inverse: the stored row is H (s . x).
        let mut stored: Vec<f64> = row.iter().map(|&x| x.into()).collect();
        let inverse = Transform { order: crate::model::FoldOrder::SignsThenWht, ..transform.clone() };
        inverse.apply(&mut stored);
        transform_terms(&stored, transform.block).into_iter().map(move |terms| budget(terms, stages + 1.0))
    });
    allowed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terms_of_a_block_are_its_sum_of_sizes() {
        assert_eq!(
            transform_terms(&[1.0, -1.0, 0.5, 0.5, 2.0, 0.0, 0.0, 0.0], 4),
            [1.5, 1.5, 1.5, 1.5, 1.0, 1.0, 1.0, 1.0]
        );
    }
}
