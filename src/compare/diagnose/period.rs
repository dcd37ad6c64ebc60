//! Wrong channels that come round: every 128th, or the first half of every block of 64.

use super::pair::Pair;
use super::regular::period;
use super::wrong_parts::wrong_parts;
use super::{Axis, Finding, Shape};

/// Wrong channels with a period.
pub(super) struct Period;

impl Shape for Period {
    fn name(&self) -> &'static str {
        "period"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let wrong = wrong_parts(pair, pair.cut_of(Axis::Channel)?)?;
        // Of more than half, the right ones are what stands out.
        let n = wrong.parts.len();
        if n < 2 || 2 * n > wrong.extent {
            return None;
        }
        let (period, residues) = period(&wrong.parts, wrong.extent)?;
        let (first, last) = (residues[0], residues[residues.len() - 1]);
        let place = if residues.len() == 1 {
            format!("{first}")
        } else if last - first + 1 == residues.len() {
            format!("{first} to {last}")
        } else {
            format!("one of {} places", residues.len())
        };
        let words =
            format!("an error of period {period}: only in the channels i with i % {period} = {place}");
        Some(Finding::verified(self, words, wrong.explains))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;
    use crate::tensor::Values;

    fn found(is_wrong: impl Fn(usize) -> bool) -> Option<String> {
        let x = noise(64, 7);
        let y: Vec<f32> =
            x.iter().enumerate().map(|(i, &x)| if is_wrong(i % 32) { x + 1.0 } else { x }).collect();
        Period.find(&Pair::new(&x, Values::F32(&y), &[2, 32]).unwrap()).map(|finding| finding.words)
    }

    #[test]
    fn the_period_and_the_places_in_it() {
        let one = found(|i| i % 8 == 3).unwrap();
        assert_eq!(one, "an error of period 8: only in the channels i with i % 8 = 3");
        let half = found(|i| i % 16 < 8).unwrap();
        assert_eq!(half, "an error of period 16: only in the channels i with i % 16 = 0 to 7");
    }

    #[test]
    fn one_channel_and_a_range_have_none() {
        assert_eq!(found(|i| i == 3), None);
        assert_eq!(found(|i| i < 5), None);
    }
}
