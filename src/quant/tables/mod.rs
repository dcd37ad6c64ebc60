//! The tables of the IQ formats, which are facts of ggml and follow no rule. `scripts/quant-tables.py` writes them.

pub(super) mod iq1;
pub(super) mod iq2_s;
pub(super) mod iq2_xs;
pub(super) mod iq2_xxs;
pub(super) mod iq3_s;
pub(super) mod iq3_xxs;
pub(super) mod iq4;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn points_differ_and_their_coordinates_are_levels() {
        for (name, points, levels, bits) in [
            ("iq1", &iq1::POINTS[..], iq1::LEVELS.len(), 2),
            ("iq2_xxs", &iq2_xxs::POINTS, iq2_xxs::LEVELS.len(), 2),
            ("iq2_xs", &iq2_xs::POINTS, iq2_xs::LEVELS.len(), 2),
            ("iq2_s", &iq2_s::POINTS, iq2_s::LEVELS.len(), 2),
            ("iq3_xxs", &iq3_xxs::POINTS, iq3_xxs::LEVELS.len(), 4),
            ("iq3_s", &iq3_s::POINTS, iq3_s::LEVELS.len(), 4),
        ] {
            assert_eq!(points.iter().collect::<BTreeSet<_>>().len(), points.len(), "{name}");
            let indices =
                |code: u16| (0..16 / bits).map(move |j| usize::from(code >> (bits * j)) % (1 << bits));
            assert!(points.iter().all(|&code| indices(code).all(|i| i < levels)), "{name}");
        }
    }
}
