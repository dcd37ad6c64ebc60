//! ROPE: rotary position embedding on the first `n_dims` elements of each head; the rest passes through.
//!
//! ```text
//! angle_i = p_c * base^(-2 i / n_dims),  i in 0 .. n_dims / 2,  c the section of pair i
//! (x_a, x_b) -> (x_a cos - x_b sin, x_a sin + x_b cos)
//! ```
//! Pairs: half (`a = i`, `b = i + n_dims / 2`: NEOX, MROPE, IMROPE) or adjacent (`a = 2 i`, `b = 2 i + 1`: NORMAL).
//! Angles are taken in f64 from the exact exponent and then rounded; ggml multiplies by `base^(-2 / n_dims)` again and
//! again in f32 (`ggml_mrope_cache_init`, ops.cpp), which differs by rounding only.

use ndarray::ArrayViewMut3;

use super::Number;

/// Which elements rotate together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RopePairing {
    /// `(i, i + n_dims / 2)`
    Half,
    /// `(2 i, 2 i + 1)`
    Adjacent,
}

/// How the four position channels (t, h, w, extra) are spread over the pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RopeSections {
    /// IMROPE: t, h, w take turns as far as their sections reach (`i % 3`); the rest is the extra channel.
    Interleaved,
    /// MROPE: `sections[0]` pairs of t, then `sections[1]` of h, and so on.
    Contiguous,
}

/// How a pair of elements turns.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Turn {
    /// Which pair: the power of its frequency.
    pub power: usize,
    /// Its elements.
    pub pair: (usize, usize),
    /// In radians.
    pub angle: f64,
    /// The position that it is turned for.
    pub position: i64,
}

/// The parameters of a rotation.
#[derive(Clone, PartialEq, Debug)]
pub struct Rope {
    /// Elements of each head that rotate, even.
    pub n_dims: usize,
    /// The base of the frequencies (`rope.freq_base`).
    pub freq_base: f64,
    /// Pairs for each position channel (`rope.dimension_sections`).
    pub sections: [usize; 4],
    /// How the sections lie.
    pub layout: RopeSections,
    /// Which elements rotate together.
    pub pairing: RopePairing,
}

impl Rope {
    /// The position channel of pair `i`.
    fn channel(&self, i: usize) -> usize {
        let [t, h, w, extra] = self.sections;
        let sector = i % (t + h + w + extra).max(1);
        match self.layout {
            RopeSections::Interleaved => match sector % 3 {
                0 if sector < 3 * t => 0,
                1 if sector < 3 * h => 1,
                2 if sector < 3 * w => 2,
                _ => 3,
            },
            RopeSections::Contiguous => {
                [t, t + h, t + h + w].iter().position(|&end| sector < end).unwrap_or(3)
            }
        }
    }

    /// The angle of pair `i` at a position, in radians.
    pub fn angle(&self, i: usize, position: &[i64; 4]) -> f64 {
        position[self.channel(i)] as f64 * self.freq_base.powf(-2.0 * i as f64 / self.n_dims as f64)
    }

    /// How each pair turns at a position.
    pub fn turns<'a>(&'a self, position: &'a [i64; 4]) -> impl Iterator<Item = Turn> + 'a {
        let half = self.n_dims / 2;
        (0..half).map(move |i| {
            let pair = match self.pairing {
                RopePairing::Half => (i, i + half),
                RopePairing::Adjacent => (2 * i, 2 * i + 1),
            };
            let position_of = position[self.channel(i)];
            Turn { power: i, pair, angle: self.angle(i, position), position: position_of }
        })
    }

    /// Rotates `x` `[n_tokens, n_head, head_dim]` in place; `positions[t]` holds the four channels of token t.
    ///
    /// # Panics
    /// If there are fewer positions than tokens, or `n_dims` is larger than the head.
    pub fn rotate<T: Number>(&self, mut x: ArrayViewMut3<'_, T>, positions: &[[i64; 4]]) {
        let (n_tokens, _, head_dim) = x.dim();
        assert!(positions.len() == n_tokens && self.n_dims <= head_dim, "positions or head size");
        for (mut token, position) in x.outer_iter_mut().zip(positions) {
            let turns: Vec<((usize, usize), (T, T))> =
                self.turns(position).map(|turn| (turn.pair, T::turn(self, &turn))).collect();
            for mut head in token.outer_iter_mut() {
                for &((a, b), turn) in &turns {
                    (head[a], head[b]) = T::rotate((head[a], head[b]), turn);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array3, array};

    fn rope(pairing: RopePairing) -> Rope {
        Rope {
            n_dims: 4,
            freq_base: 100.0,
            sections: [1, 1, 0, 0],
            layout: RopeSections::Interleaved,
            pairing,
        }
    }

    #[test]
    fn pairs_are_half_a_head_apart_and_the_rest_passes() {
        let mut x: Array3<f64> = array![[[1.0, 0.0, 0.0, 1.0, 7.0]]];
        rope(RopePairing::Half).rotate(x.view_mut(), &[[2, 2, 2, 0]]);
        // pair 0 = (1, 0) by 2 * 100^0; pair 1 = (0, 1) by 2 * 100^(-1/2)
        let (a, b) = (2.0f64, 0.2f64);
        assert_eq!(x, array![[[a.cos(), -b.sin(), a.sin(), b.cos(), 7.0]]]);
    }

    #[test]
    fn adjacent_pairs() {
        let mut x: Array3<f64> = array![[[1.0, 0.0, 1.0, 0.0, 7.0]]];
        rope(RopePairing::Adjacent).rotate(x.view_mut(), &[[1, 1, 1, 0]]);
        let (a, b) = (1.0f64, 0.1f64);
        assert_eq!(x, array![[[a.cos(), a.sin(), b.cos(), b.sin(), 7.0]]]);
    }

    #[test]
    fn a_turn_names_its_pair() {
        let rope = rope(RopePairing::Adjacent);
        let turns: Vec<Turn> = rope.turns(&[1, 2, 0, 0]).collect();
        assert_eq!(turns[0], Turn { power: 0, pair: (0, 1), angle: 1.0, position: 1 });
        assert_eq!(turns[1], Turn { power: 1, pair: (2, 3), angle: 2.0 * 100f64.powf(-0.5), position: 2 });
    }

    #[test]
    fn interleaved_sections_of_the_27b_never_reach_the_fourth_channel() {
        let rope = Rope {
            n_dims: 64,
            freq_base: 1e7,
            sections: [11, 11, 10, 0],
            layout: RopeSections::Interleaved,
            pairing: RopePairing::Half,
        };
        let channels: Vec<usize> = (0..32).map(|i| rope.channel(i)).collect();
        assert_eq!(channels[..6], [0, 1, 2, 0, 1, 2]);
        assert_eq!([0, 1, 2, 3].map(|c| channels.iter().filter(|&&x| x == c).count()), [11, 11, 10, 0]);
        let contiguous = Rope { layout: RopeSections::Contiguous, ..rope };
        assert_eq!([0, 10, 11, 21, 22, 31].map(|i| contiguous.channel(i)), [0, 0, 1, 1, 2, 2]);
    }
}
