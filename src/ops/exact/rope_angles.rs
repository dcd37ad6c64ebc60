//! The angles of ROPE: how far a pair turns at a position, with frequency factors, a scale and YaRN.
//!
//! ```text
//! extrapolated = p freq_base^(-2 k / n_dims) / factor_i;  k the power of pair i
//! interpolated = freq_scale extrapolated
//! angle        = interpolated (1 - mix) + extrapolated mix,  mix = ext_factor ramp_i
//! magnitude    = attn_factor (1 + ln(1 / freq_scale) / 10 if ext_factor is not 0)
//! size  = |interpolated (1 - mix)| + |extrapolated mix|, within the ramp |ext_factor| (|interpolated| + |extrapolated|) more
//! terms of the magnitude = |attn_factor| (1 + |ln| / 10);  of a turn, that times 1 + size (k + r)
//! ```
//! ggml forms the angle of pair i by k multiplications in f32 with one rounded power of the base (`ggml_mrope_cache_init`,
//! ops.cpp): each product is off by u, and each brings the error of the power, which is 2 u and `2 ln(freq_base) / n_dims`
//! more for its exponent. The angle is so off by a few k u of itself, and the rotated pair by that much of its length: weight k
//! in the terms, which the budget's factor of 8 sqrt(4) covers for any n_dims and base in use. The angle of the first pair is
//! exact. Factors, a scale and YaRN add the roundings of a quotient, a product, the ramp (two), `1 - mix` and the weighted sum
//! (three): r = 8, else 0.
//! The ends of the ramp are f32 logarithms rounded to whole numbers (`ggml_rope_yarn_corr_dims`, ggml.c): they are taken in
//! f32 here too, as one that goes to the other side moves every angle.

use crate::arithmetic::RopeAngles;

/// The parameters that angles depend on.
pub(super) struct Angles {
    pub(super) n_dims: usize,
    pub(super) freq_base: f64,
    pub(super) freq_scale: f64,
    pub(super) ext_factor: f64,
    pub(super) attn_factor: f64,
    /// Between which pairs YaRN goes over from extrapolation to interpolation: see [`ramp`].
    pub(super) ramp: [f64; 2],
    /// The frequency of each pair is divided by its factor.
    pub(super) factors: Option<Vec<f64>>,
}

/// Cosine and sine of a pair, with the magnitude, and how much of its length is terms.
pub(super) struct Turn {
    pub(super) cos: f64,
    pub(super) sin: f64,
    pub(super) terms: f64,
}

/// Of an angle with factors, a scale or YaRN, beside its power.
const SCALED_ROUNDINGS: f64 = 8.0;
/// How YaRN's magnitude grows with the logarithm of the scale, and the least width of its ramp.
const MAGNITUDE: f64 = 0.1;
const RAMP_WIDTH: f64 = 0.001;

impl Angles {
    /// The same parameters as ggml-cpu takes them; `freq_base` is that of the node.
    pub(super) fn single(&self, freq_base: f32) -> RopeAngles {
        RopeAngles {
            n_dims: self.n_dims,
            freq_base,
            freq_scale: self.freq_scale as f32,
            ext_factor: self.ext_factor as f32,
            attn_factor: self.attn_factor as f32,
            ramp: self.ramp.map(|end| end as f32),
            factors: self
                .factors
                .as_ref()
                .map(|factors| factors.iter().map(|&factor| factor as f32).collect()),
        }
    }

    /// Whether the rotated pair is also scaled.
    pub(super) fn has_magnitude(&self) -> bool {
        self.ext_factor != 0.0 || self.attn_factor != 1.0
    }

    /// The rotation of pair `i` at a position.
    pub(super) fn turn(&self, i: usize, position: f64, power: usize) -> Turn {
        let factor = self.factors.as_ref().map_or(1.0, |factors| factors[i]);
        let frequency = self.freq_base.powf(-2.0 * power as f64 / self.n_dims as f64);
        let extrapolated = position * frequency / factor;
        let interpolated = self.freq_scale * extrapolated;
        let (mut angle, mut size) = (interpolated, interpolated.abs());
        let (mut magnitude, mut magnitude_terms) = (self.attn_factor, self.attn_factor.abs());
        if self.ext_factor != 0.0 {
            let [low, high] = self.ramp;
            let along = (i as f64 - low) / (high - low).max(RAMP_WIDTH);
            let mix = (1.0 - along.clamp(0.0, 1.0)) * self.ext_factor;
            angle = interpolated * (1.0 - mix) + extrapolated * mix;
            size = (interpolated * (1.0 - mix)).abs() + (extrapolated * mix).abs();
            if along > 0.0 && along < 1.0 {
                size += self.ext_factor.abs() * (interpolated.abs() + extrapolated.abs());
            }
            let growth = MAGNITUDE * (1.0 / self.freq_scale).ln();
            magnitude *= 1.0 + growth;
            magnitude_terms *= 1.0 + growth.abs();
        }
        let scaled = self.factors.is_some() || self.freq_scale != 1.0 || self.ext_factor != 0.0;
        let roundings = if scaled { SCALED_ROUNDINGS } else { 0.0 };
        Turn {
            cos: angle.cos() * magnitude,
            sin: angle.sin() * magnitude,
            terms: magnitude_terms * turn_terms(size, power as f64 + roundings),
        }
    }
}

/// How much of the length of a pair is terms, of an angle of this size that was formed with this many roundings.
pub fn turn_terms(size: f64, roundings: f64) -> f64 {
    1.0 + size * roundings
}

/// `ggml_rope_yarn_corr_dims`: the pairs between which YaRN goes over from extrapolation to interpolation.
pub(super) fn ramp(n_dims: usize, n_ctx_orig: i32, [freq_base, beta_fast, beta_slow]: [f32; 3]) -> [f64; 2] {
    let pair_of = |rotations: f32| {
        let wavelength = n_ctx_orig as f32 / (rotations * 2.0 * std::f32::consts::PI);
        n_dims as f32 * wavelength.ln() / (2.0 * freq_base.ln())
    };
    let low = pair_of(beta_fast).floor().max(0.0);
    let high = pair_of(beta_slow).ceil().min((n_dims - 1) as f32);
    [low.into(), high.into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yarn_mixes_along_a_ramp() {
        // 8 dims, base 10, 628 positions: 8 ln(628 / 2 pi b) / 2 ln 10 = 4 log10(100 / b)
        assert_eq!(ramp(8, 628, [10.0, 10.0, 2.0]), [3.0, 7.0]);
        assert_eq!(ramp(8, 628, [10.0, 1e9, 1.0]), [0.0, 7.0]);
        let angles = Angles {
            n_dims: 4,
            freq_base: 100.0,
            freq_scale: 0.25,
            ext_factor: 1.0,
            attn_factor: 2.0,
            ramp: [0.0, 3.0],
            factors: None,
        };
        let magnitude = 2.0 * (1.0 + MAGNITUDE * 4f64.ln());
        // pair 0 is extrapolated; pair 1 is a third on its way from 0.1 to a quarter of it
        for (i, angle, size) in [(0, 1f64, 1.0), (1, 0.075, 0.2)] {
            let turn = angles.turn(i, 1.0, i);
            assert!((turn.cos - magnitude * angle.cos()).abs() <= 1e-14);
            assert!((turn.sin - magnitude * angle.sin()).abs() <= 1e-14);
            // within the ramp 0.025 + 0.1 more
            assert!((turn.terms - magnitude * (1.0 + size * (i as f64 + SCALED_ROUNDINGS))).abs() <= 1e-13);
        }
    }

    #[test]
    fn factors_divide_and_a_scale_multiplies() {
        let angles = Angles {
            n_dims: 4,
            freq_base: 100.0,
            freq_scale: 0.5,
            ext_factor: 0.0,
            attn_factor: 1.0,
            ramp: [0.0; 2],
            factors: Some(vec![1.0, 4.0]),
        };
        let turn = angles.turn(1, 3.0, 1);
        assert!((turn.sin - (3.0f64 * 0.1 / 4.0 * 0.5).sin()).abs() <= 1e-16);
        assert!(!angles.has_magnitude());
    }
}
