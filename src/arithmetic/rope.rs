//! The angles of ROPE: `rope_yarn`, `ggml_rope_cache_init` and `ggml_mrope_cache_init` (ops.cpp).

use super::Isa;

/// What angles depend on, as a node's parameters hold it.
#[derive(Clone, PartialEq, Debug)]
pub struct RopeAngles {
    /// Elements that rotate.
    pub n_dims: usize,
    /// The base of the frequencies.
    pub freq_base: f32,
    /// The interpolation's scale.
    pub freq_scale: f32,
    /// How much of YaRN is mixed in.
    pub ext_factor: f32,
    /// The magnitude.
    pub attn_factor: f32,
    /// The pairs between which YaRN goes over (`ggml_rope_yarn_corr_dims`).
    pub ramp: [f32; 2],
    /// The frequency of each pair is divided by its factor.
    pub factors: Option<Vec<f32>>,
}

impl RopeAngles {
    /// Cosine and sine of pair `i`, whose frequency has been multiplied on `power` times from a position.
    ///
    /// The angle is a product of f32 numbers, rounded at each step: a pair's own power of the base is never formed.
    pub fn turn(&self, isa: Isa, i: usize, position: f32, power: usize) -> (f32, f32) {
        let step = self.freq_base.powf(-2.0 / self.n_dims as f32);
        let theta = (0..power).fold(position, |theta, _| theta * step);
        self.yarn(isa, i, theta / self.factors.as_ref().map_or(1.0, |factors| factors[i]))
    }

    /// `rope_yarn`.
    fn yarn(&self, isa: Isa, i: usize, extrapolated: f32) -> (f32, f32) {
        let interpolated = self.freq_scale * extrapolated;
        let (mut theta, mut magnitude) = (interpolated, self.attn_factor);
        if self.ext_factor != 0.0 {
            let [low, high] = self.ramp;
            let y = (i as f32 - low) / (high - low).max(0.001);
            let mix = (1.0 - y.clamp(0.0, 1.0)) * self.ext_factor;
            theta = isa.madd(interpolated, 1.0 - mix, extrapolated * mix);
            magnitude *= isa.madd(0.1, (1.0 / self.freq_scale).ln(), 1.0);
        }
        (theta.cos() * magnitude, theta.sin() * magnitude)
    }
}

/// Two elements that are rotated, or a cosine and a sine.
pub type Pair = (f32, f32);

/// `rotate_pairs`: both elements of a pair.
pub fn rotate(isa: Isa, (x0, x1): Pair, (cos, sin): Pair) -> Pair {
    (isa.madd(x0, cos, -(x1 * sin)), isa.madd(x0, sin, x1 * cos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_angle_is_multiplied_on() {
        let angles = RopeAngles {
            n_dims: 4,
            freq_base: 16.0,
            freq_scale: 1.0,
            ext_factor: 0.0,
            attn_factor: 1.0,
            ramp: [0.0, 0.0],
            factors: None,
        };
        let isa = Isa::Sse2;
        // step 16^(-1/2) = 1/4
        assert_eq!(angles.turn(isa, 1, 8.0, 1), (2f32.cos(), 2f32.sin()));
        let halved = RopeAngles { factors: Some(vec![1.0, 2.0]), ..angles };
        assert_eq!(halved.turn(isa, 1, 8.0, 1), (1f32.cos(), 1f32.sin()));
    }

    #[test]
    fn a_quarter_turn_swaps_a_pair() {
        for isa in [Isa::Sse2, Isa::Avx2, Isa::Avx512] {
            assert_eq!(rotate(isa, (3.0, 4.0), (0.0, 1.0)), (-4.0, 3.0));
        }
    }
}
