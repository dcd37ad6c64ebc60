//! Heads, tokens, channels or blocks of channels in another order, or read by another map: part i holds what part p(i) should
//! hold. The map is found by the nearest part, and then every value is verified.

use super::nearest::{TELLING, nearest, samples};
use super::pair::{Cut, Pair};
use super::regular;
use super::{Axis, Finding, Shape};

/// A permutation of parts.
pub(super) struct Permutation;

/// Most parts: each is compared with each.
const MOST_PARTS: usize = 1024;
impl Shape for Permutation {
    fn name(&self) -> &'static str {
        "permutation"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let named = [Axis::Head, Axis::Token].into_iter().filter_map(|axis| {
            let letter = if axis == Axis::Head { "h" } else { "t" };
            Some((pair.cut_of(axis)?, format!("{}s", axis.noun()), letter))
        });
        let last = pair.shape.last().copied().unwrap_or(1);
        let nouns = format!("{}s", pair.axes.last().map_or("element", |axis| axis.noun()));
        let outer = pair.reference.len() / last.max(1);
        // Coarse before fine: a permutation of blocks is also one of smaller blocks.
        let blocks = (2..=last).filter(|&n| last.is_multiple_of(n)).map(|n| {
            let cut = Cut { outer, extent: n, inner: last / n };
            let name = if n == last { nouns.clone() } else { format!("blocks of {} {nouns}", last / n) };
            (cut, name, "i")
        });
        let rows = (pair.shape.len() > 2).then(|| (pair.rows(), format!("rows of {last}"), "i"));
        let mut cuts =
            named.chain(blocks).chain(rows).filter(|(cut, ..)| (2..=MOST_PARTS).contains(&cut.extent));
        cuts.find_map(|(cut, name, letter)| {
            let reference = samples(pair.reference, cut);
            let map: Vec<usize> =
                samples(&pair.actual, cut).iter().map(|part| nearest(part, &reference).1).collect();
            let is_proper = is_proper(&map);
            if map.iter().enumerate().all(|(i, &p)| i == p) || cut.part_len() < TELLING && !is_proper {
                return None;
            }
            let moved = |i: usize| {
                let (o, part, k) = cut.place(i);
                f64::from(pair.reference[cut.at(o, map[part], k)])
            };
            let bits = cut.extent as f64 * (cut.extent as f64).log2();
            let explains = pair.chosen(0, bits, moved)?;
            Some(Finding::verified(self, words(&map, &reference, &name, letter), explains))
        })
    }
}

fn words(map: &[usize], reference: &[Vec<f32>], plural: &str, letter: &str) -> String {
    // Parts that are equal in the reference came from one: what is told is which of those is read.
    let first: Vec<usize> =
        reference.iter().map(|part| reference.iter().position(|p| p == part).unwrap_or(0)).collect();
    let mut kinds = first.clone();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.len() < reference.len() {
        let kind = |part: usize| kinds.binary_search(&first[part]).unwrap_or(0);
        let should: Vec<usize> = (0..map.len()).map(kind).collect();
        let does: Vec<usize> = map.iter().map(|&part| kind(part)).collect();
        if let (Some(should), Some(does)) =
            (regular::formula(&should, letter), regular::formula(&does, letter))
        {
            return format!("a permutation of {plural} ({should} -> {does})");
        }
    }
    let what = if is_proper(map) { "a permutation" } else { "a wrong map" };
    match regular::formula(map, letter) {
        Some(swap) if swap.contains("<->") => format!("a swap of two {plural} ({swap})"),
        Some(formula) if formula.starts_with("reversed") => format!("{what} of {plural} ({formula})"),
        Some(formula) => format!("{what} of {plural} ({letter} -> {formula})"),
        None => format!("{what} of {plural} ({})", regular::map(map, letter)),
    }
}

fn is_proper(map: &[usize]) -> bool {
    let mut sorted = map.to_vec();
    sorted.sort_unstable();
    sorted.iter().enumerate().all(|(i, &p)| i == p)
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;
    use crate::tensor::Values;

    fn found(x: &[f32], y: &[f32], shape: &[usize]) -> Option<String> {
        Permutation.find(&Pair::new(x, Values::F32(y), shape).unwrap()).map(|finding| finding.words)
    }

    /// Three tokens of six heads of four, head h as `from(h)` says.
    fn heads(x: &[f32], from: impl Fn(usize) -> usize) -> Vec<f32> {
        (0..72).map(|i| x[i / 24 * 24 + from(i / 4 % 6) * 4 + i % 4]).collect()
    }

    #[test]
    fn heads_in_another_order_by_formula_or_listed() {
        let x = noise(72, 1);
        let case = |from: &dyn Fn(usize) -> usize| found(&x, &heads(&x, from), &[3, 6, 4]).unwrap();
        assert_eq!(case(&|h| (h % 2) * 3 + h / 2), "a permutation of heads (h -> (h%2)*3 + h/2)");
        assert_eq!(case(&|h| 5 - h), "a permutation of heads (h -> 5-h)");
        assert_eq!(case(&|h| [0, 1, 4, 3, 2, 5][h]), "a swap of two heads (2 <-> 4)");
        assert_eq!(case(&|h| [3, 0, 5, 1, 4, 2][h]), "a permutation of heads (h -> 3, 0, 5, 1, 4, 2)");
        assert_eq!(case(&|h| h / 3), "a wrong map of heads (h -> h/3)");
    }

    #[test]
    fn heads_that_are_repeated_are_told_by_both_maps() {
        let x = noise(72, 1);
        let (grouped, tiled) = (heads(&x, |h| h / 3), heads(&x, |h| h % 2));
        let words = found(&grouped, &tiled, &[3, 6, 4]).unwrap();
        assert_eq!(words, "a permutation of heads (h/3 -> h%2)");
    }

    #[test]
    fn blocks_of_channels_and_single_ones() {
        let x = noise(72, 1);
        // [3, 24]: halves of 12 exchanged
        let halves: Vec<f32> = (0..72).map(|i| x[i / 24 * 24 + (i % 24 + 12) % 24]).collect();
        assert_eq!(found(&x, &halves, &[3, 24]).unwrap(), "a swap of two blocks of 12 channels (0 <-> 1)");
        let pairs: Vec<f32> = (0..72).map(|i| x[i ^ 1]).collect();
        assert_eq!(found(&x, &pairs, &[3, 24]).unwrap(), "a permutation of channels (i -> i^1)");
    }

    #[test]
    fn noise_and_a_factor_are_no_permutation() {
        let (x, y) = (noise(72, 1), noise(72, 2));
        assert_eq!(found(&x, &y, &[3, 6, 4]), None);
        let scaled: Vec<f32> = x.iter().map(|x| 1.01 * x).collect();
        assert_eq!(found(&x, &scaled, &[3, 6, 4]), None);
        // Among 1024 single numbers each has a near one.
        let (x, y) = (noise(1024, 1), noise(1024, 2));
        assert_eq!(found(&x, &y, &[1, 1024]), None);
    }
}
