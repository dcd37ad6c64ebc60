//! One head wrong, or some. If they are those in which `h/rep` and `h%n` differ, heads are mapped to groups the other way.

use super::pair::{Cut, Pair};
use super::regular::{differs_by_head_map, set};
use super::wrong_parts::wrong_parts;
use super::{Axis, Finding, Shape};

/// Wrong heads.
pub(super) struct Head;

impl Shape for Head {
    fn name(&self) -> &'static str {
        "head"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let cut: Cut = pair.cut_of(Axis::Head)?;
        let wrong = wrong_parts(pair, cut)?;
        let words = match differs_by_head_map(&wrong.parts, wrong.extent) {
            Some((rep, n)) => format!(
                "a wrong map of heads to groups (h/{rep} against h%{n}): an error only in the {} of {} heads where they differ",
                wrong.parts.len(),
                wrong.extent
            ),
            None => format!("an error only in {}", set(&wrong.parts, wrong.extent, "head")),
        };
        Some(Finding::verified(self, words, wrong.explains))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;
    use crate::tensor::Values;

    fn found(is_wrong: impl Fn(usize) -> bool) -> Option<String> {
        let (x, other) = (noise(72, 8), noise(72, 9));
        let y: Vec<f32> = (0..72).map(|i| if is_wrong(i / 4 % 6) { other[i] } else { x[i] }).collect();
        Head.find(&Pair::new(&x, Values::F32(&y), &[3, 6, 4]).unwrap()).map(|finding| finding.words)
    }

    #[test]
    fn one_head_some_heads_and_a_wrong_map() {
        assert_eq!(found(|h| h == 2).as_deref(), Some("an error only in head 2"));
        assert_eq!(found(|h| h == 2 || h == 5).as_deref(), Some("an error only in heads i with i % 3 = 2"));
        let map = found(|h| h / 3 != h % 2).unwrap();
        assert_eq!(
            map,
            "a wrong map of heads to groups (h/3 against h%2): an error only in the 2 of 6 heads where they differ"
        );
    }

    #[test]
    fn all_heads_are_none() {
        assert_eq!(found(|_| true), None);
    }
}
