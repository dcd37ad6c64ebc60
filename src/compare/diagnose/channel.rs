//! One channel wrong, or few: in every token, and nowhere else.

use super::pair::Pair;
use super::regular::{period, set};
use super::wrong_parts::wrong_parts;
use super::{Axis, Finding, Shape};

/// Wrong channels.
pub(super) struct Channel;

impl Shape for Channel {
    fn name(&self) -> &'static str {
        "channel"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let wrong = wrong_parts(pair, pair.cut_of(Axis::Channel)?)?;
        let n = wrong.parts.len();
        // What comes round has a period; and the right ones may be the ones that stand out.
        if 2 * n > wrong.extent || n > 1 && period(&wrong.parts, wrong.extent).is_some() {
            return None;
        }
        let words = format!("an error only in {}", set(&wrong.parts, wrong.extent, "channel"));
        Some(Finding::verified(self, words, wrong.explains))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;
    use crate::tensor::Values;

    fn found(change: impl Fn(usize, f32) -> f32) -> Option<String> {
        let x = noise(64, 7);
        let y: Vec<f32> = x.iter().enumerate().map(|(i, &x)| change(i, x)).collect();
        Channel.find(&Pair::new(&x, Values::F32(&y), &[4, 16]).unwrap()).map(|finding| finding.words)
    }

    #[test]
    fn a_channel_and_a_range() {
        let one = found(|i, x| if i % 16 == 5 { x + 1.0 } else { x });
        assert_eq!(one.as_deref(), Some("an error only in channel 5"));
        let range = found(|i, x| if (8..12).contains(&(i % 16)) { 2.0 * x } else { x });
        assert_eq!(range.as_deref(), Some("an error only in channels 8 to 11"));
    }

    #[test]
    fn an_error_in_all_channels_of_a_token_is_none() {
        assert_eq!(found(|i, x| if i < 16 { 2.0 * x } else { x }), None);
        assert_eq!(found(|i, x| if i % 4 == 1 { x + 1.0 } else { x }), None); // a period
    }
}
