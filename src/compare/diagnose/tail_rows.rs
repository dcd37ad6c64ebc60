//! The last tokens wrong, which fill no whole tile.

use super::pair::Pair;
use super::wrong_parts::wrong_tokens;
use super::{Finding, Shape};

/// Wrong last tokens.
pub(super) struct TailRows;

impl Shape for TailRows {
    fn name(&self) -> &'static str {
        "tail_rows"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let wrong = wrong_tokens(pair)?;
        let (n, k) = (wrong.extent, wrong.parts.len());
        // More than half is no tail, and neither is one of two.
        if wrong.from().is_none() || 2 * k > n || n < 3 {
            return None;
        }
        let tile = (1..10).rev().map(|p| 1usize << p).find(|tile| k < *tile && n % tile == k);
        let tile = tile.map(|tile| format!(": {n} = {} x {tile} + {k}", n / tile)).unwrap_or_default();
        let tokens = if k == 1 { "token".to_owned() } else { format!("{k} tokens") };
        Some(Finding::verified(self, format!("an error only in the last {tokens}{tile}"), wrong.explains))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;
    use crate::tensor::Values;

    fn found(is_wrong: impl Fn(usize) -> bool) -> Option<String> {
        let x = noise(76, 11);
        let y: Vec<f32> =
            x.iter().enumerate().map(|(i, &x)| if is_wrong(i / 4) { x + 1.0 } else { x }).collect();
        TailRows.find(&Pair::new(&x, Values::F32(&y), &[19, 4]).unwrap()).map(|finding| finding.words)
    }

    #[test]
    fn the_last_rows_with_the_tile_that_they_do_not_fill() {
        let tail = found(|t| t >= 16).unwrap();
        assert_eq!(tail, "an error only in the last 3 tokens: 19 = 1 x 16 + 3");
        assert_eq!(found(|t| t >= 14).unwrap(), "an error only in the last 5 tokens");
    }

    #[test]
    fn rows_elsewhere_are_no_tail() {
        assert_eq!(found(|t| t == 3), None);
        assert_eq!(found(|t| t >= 4), None);
    }
}
