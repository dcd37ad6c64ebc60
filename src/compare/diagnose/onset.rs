//! Tokens that are right up to some token, and wrong from there on.

use super::pair::Pair;
use super::wrong_parts::wrong_tokens;
use super::{Finding, Shape};

/// An error that sets in at a token.
pub(super) struct Onset;

impl Shape for Onset {
    fn name(&self) -> &'static str {
        "onset"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let wrong = wrong_tokens(pair)?;
        let from = wrong.from()?;
        let position = match pair.position(from) {
            position if position == from as i64 => String::new(),
            position => format!(" (position {position})"),
        };
        let words = match from {
            1 => format!("an error in every token but the first, which has no past{position}"),
            _ => format!("an error from token {from}{position} on"),
        };
        Some(Finding::verified(self, words, wrong.explains))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;
    use crate::tensor::Values;

    fn found(positions: &[i32], is_wrong: impl Fn(usize) -> bool) -> Option<String> {
        let x = noise(24, 12);
        let y: Vec<f32> =
            x.iter().enumerate().map(|(i, &x)| if is_wrong(i / 4) { x + 1.0 } else { x }).collect();
        let pair = Pair::new(&x, Values::F32(&y), &[6, 4]).unwrap().with_positions(positions);
        Onset.find(&pair).map(|finding| finding.words)
    }

    #[test]
    fn from_a_token_on() {
        assert_eq!(found(&[], |t| t >= 2).unwrap(), "an error from token 2 on");
        assert_eq!(
            found(&[], |t| t > 0).unwrap(),
            "an error in every token but the first, which has no past"
        );
        let later = found(&[10, 11, 12, 13, 14, 15], |t| t >= 2).unwrap();
        assert_eq!(later, "an error from token 2 (position 12) on");
    }

    #[test]
    fn a_right_token_behind_it_or_none_in_front_of_it() {
        assert_eq!(found(&[], |t| t == 2 || t == 3), None);
        assert_eq!(found(&[], |_| true), None);
    }
}
