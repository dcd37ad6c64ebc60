//! ROPE and ROPE_BACK: pairs of each head are rotated by angles that grow with the position; the rest passes through.
//!
//! ```text
//! x, y {head_dim, n_head, n_tokens, n_seq}   positions {n_tokens}, or {4 n_tokens} for modes with sections
//! factors {>= n_dims / 2} (source 2) or none
//! params  1 n_dims, 2 mode, 4 n_ctx_orig, 5 freq_base, 6 freq_scale, 7 ext_factor, 8 attn_factor, 9 beta_fast,
//!         10 beta_slow, 11.. sections, 15 n_offs
//! pairs   NORMAL (o + 2 i, o + 2 i + 1)   NEOX, MROPE, IMROPE (o + i, o + i + n_dims / 2)   VISION (i, i + n_dims)
//! angle, magnitude, size  of pair i at position p_c, with a power k of the frequency: in `rope_angles`
//!         c the section of i, k = i, for VISION counted from the start of the section
//! (x_a, x_b) -> magnitude (x_a cos - x_b sin, x_a sin + x_b cos);  ROPE_BACK: the other way round
//! terms = (|x_a| + |x_b|) (terms of the magnitude) (1 + size (k + r))
//! ```
//! What passes through is moved: its terms are 0.

use std::ops::Range;

use super::moves::{floats, singles};
use super::rope_angles::{Angles, Turn, ramp};
use super::{Exact, Executed, Invocation, Oracle, OracleError};

pub(super) struct RopeOracle;

/// Roundings on the way: two products, a sum, sine and cosine.
pub const ROPE_STEPS: f64 = 4.0;
/// With a magnitude: its logarithm, two products and a sum, and the product with sine and cosine.
const SCALED_STEPS: f64 = 9.0;

const NORMAL: i32 = 0;
const NEOX: i32 = 2;
const MROPE: i32 = 8;
const VISION: i32 = 24;
const IMROPE: i32 = 40;

/// The parameters of a node.
struct Rope {
    mode: i32,
    n_dims: usize,
    offset: usize,
    sections: [usize; 4],
    angles: Angles,
}

impl Oracle for RopeOracle {
    fn ops(&self) -> &'static [&'static str] {
        &["ROPE", "ROPE_BACK"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let rope = Rope::of(node)?;
        let mut values = floats(node, 0)?;
        let mut terms: Vec<f64> = vec![0.0; values.len()]; // what passes through is moved
        let turn = |i: usize, position: i64, power: usize| rope.angles.turn(i, position as f64, power);
        rope.walk(node, values.len(), turn, |head, turns: &[Turn]| {
            let (head, terms) = (&mut values[head.clone()], &mut terms[head]);
            for (i, turn) in turns.iter().enumerate() {
                let (a, b) = rope.pair(i);
                let (xa, xb, cos) = (head[a], head[b], turn.cos);
                let sin = if node.op == "ROPE_BACK" { -turn.sin } else { turn.sin };
                (head[a], head[b]) = (xa * cos - xb * sin, xa * sin + xb * cos);
                let length = (xa.abs() + xb.abs()) * turn.terms;
                (terms[a], terms[b]) = (length, length);
            }
        })?;
        let additions = if rope.angles.has_magnitude() { SCALED_STEPS } else { ROPE_STEPS };
        Ok(Exact { values, terms, additions, ..Exact::default() })
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let rope = Rope::of(node)?;
        let (isa, primitives) = (executed.ggml.isa, executed.primitives);
        let mut values = singles(node, 0)?.into_owned();
        let angles = rope.angles.single(node.single(5));
        let turn = |i: usize, position: i64, power: usize| {
            (primitives.turn)(&angles, isa, i, position as f32, power)
        };
        rope.walk(node, values.len(), turn, |head, turns| {
            let head = &mut values[head];
            for (i, &(cos, sin)) in turns.iter().enumerate() {
                let (a, b) = rope.pair(i);
                let sin = if node.op == "ROPE_BACK" { -sin } else { sin };
                (head[a], head[b]) = (primitives.rotate)(isa, (head[a], head[b]), (cos, sin));
            }
        })?;
        Ok(values)
    }
}

impl Rope {
    /// Hands out the place of each head with the turns of its pairs, which `turn` makes of a pair, its position and its power.
    fn walk<T>(
        &self,
        node: &Invocation<'_>,
        elements: usize,
        turn: impl Fn(usize, i64, usize) -> T,
        mut head: impl FnMut(Range<usize>, &[T]),
    ) -> Result<(), OracleError> {
        let positions = node.source(1)?.ints().ok_or_else(|| node.shape("source 1 holds no integers"))?;
        let [head_dim, n_head, n_tokens, _] = node.ne.map(|n| n as usize);
        let channels = if self.has_sections() { 4 } else { 1 };
        let fits = elements == node.elements() && positions.len() == channels * n_tokens;
        node.require(fits, "heads and positions do not fit")?;
        let origins = self.origins();
        let mut turns: Vec<T> = Vec::new();
        for row in 0..elements / head_dim.max(1) {
            if row % n_head == 0 {
                let token = row / n_head % n_tokens;
                let position = [0, 1, 2, 3].map(|c| positions[(c % channels) * n_tokens + token]);
                let turn =
                    |(i, &(channel, power)): (usize, &(usize, usize))| turn(i, position[channel], power);
                turns = origins.iter().enumerate().map(turn).collect();
            }
            head(row * head_dim..(row + 1) * head_dim, &turns);
        }
        Ok(())
    }
    fn of(node: &Invocation<'_>) -> Result<Rope, OracleError> {
        let mode = node.int(2);
        if ![NORMAL, NEOX, MROPE, VISION, IMROPE].contains(&mode) {
            return Err(node.parameter(format!("mode {mode}")));
        }
        let count = |index: usize| usize::try_from(node.int(index));
        let (n_dims, offset) = (count(1).unwrap_or(0), count(15).unwrap_or(0));
        let sections = [11, 12, 13, 14].map(|index| count(index).unwrap_or(0));
        let head_dim = node.ne[0] as usize;
        let rotates = if mode == VISION {
            2 * n_dims == head_dim && offset == 0
        } else {
            n_dims.is_multiple_of(2) && offset.saturating_add(n_dims) <= head_dim
        };
        node.require(rotates && n_dims > 0, "the rotated elements do not fit the head")?;
        let factors = match node.sources.get(2).and_then(Option::as_ref) {
            Some(_) => Some(floats(node, 2)?),
            None => None,
        };
        let angles = Angles {
            n_dims,
            freq_base: node.float(5),
            freq_scale: node.float(6),
            ext_factor: node.float(7),
            attn_factor: node.float(8),
            ramp: ramp(n_dims, node.int(4), [5, 9, 10].map(|index| node.float(index) as f32)),
            factors,
        };
        let rope = Rope { mode, n_dims, offset, sections, angles };
        node.require(!rope.has_sections() || sections[..3].iter().any(|&n| n > 0), "there are no sections")?;
        let enough = rope.angles.factors.as_ref().is_none_or(|factors| factors.len() >= rope.pairs());
        node.require(enough, "fewer frequency factors than pairs")?;
        Ok(rope)
    }

    fn has_sections(&self) -> bool {
        self.mode & MROPE != 0
    }

    fn pairs(&self) -> usize {
        if self.mode == VISION { self.n_dims } else { self.n_dims / 2 }
    }

    /// The elements of pair `i`.
    fn pair(&self, i: usize) -> (usize, usize) {
        match self.mode {
            NORMAL => (self.offset + 2 * i, self.offset + 2 * i + 1),
            VISION => (i, i + self.n_dims),
            _ => (self.offset + i, self.offset + i + self.n_dims / 2),
        }
    }

    /// The position channel of each pair (t, h, w, extra), and the power of its frequency.
    ///
    /// As ggml walks through them: the four angles are multiplied on from pair to pair, and VISION starts the one whose
    /// section begins anew.
    fn origins(&self) -> Vec<(usize, usize)> {
        if !self.has_sections() {
            return (0..self.pairs()).map(|i| (0, i)).collect();
        }
        let [t, h, w, extra] = self.sections;
        let (to_h, to_w, all) = (t + h, t + h + w, t + h + w + extra);
        let mut powers = [0; 4];
        let mut origins = Vec::with_capacity(self.pairs());
        for i in 0..self.pairs() {
            let sector = i % all.max(1);
            if self.mode == VISION {
                // the first that applies: an empty section is not begun
                if let Some(begun) = [0, t, to_h, to_w].iter().position(|&start| sector == start) {
                    powers[begun] = 0;
                }
            }
            let channel = if self.mode == IMROPE {
                (0..3).find(|&c| sector % 3 == c && sector < 3 * self.sections[c]).unwrap_or(3)
            } else {
                [t, to_h, to_w].iter().position(|&end| sector < end).unwrap_or(3)
            };
            origins.push((channel, powers[channel]));
            powers.iter_mut().for_each(|power| *power += 1);
        }
        origins
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    fn bits(x: f32) -> i32 {
        x.to_bits() as i32
    }

    /// One head `x` of one token.
    fn rope(op: &str, params: &[i32], x: &[f32], positions: &[i64]) -> Result<Exact, OracleError> {
        let ne = [x.len() as u64, 1, 1, 1];
        let sources = [
            Some(Operand { ne, data: Data::Float(x.to_vec()) }),
            Some(Operand { ne: [positions.len() as u64, 1, 1, 1], data: Data::Int(positions.to_vec()) }),
        ];
        RopeOracle.exact(&Invocation { op, variant: None, params, ne, sources: &sources })
    }

    fn plain(n_dims: i32, mode: i32) -> [i32; 16] {
        let mut params = [0; 16];
        params[1..9].copy_from_slice(&[n_dims, mode, 0, 0, bits(100.0), bits(1.0), 0, bits(1.0)]);
        params
    }

    #[test]
    fn position_zero_moves_nothing_and_other_modes_are_named() {
        let x = [1.0, 2.0, 3.0, 4.0];
        let exact = rope("ROPE", &plain(2, NEOX), &x, &[0]).unwrap();
        assert_eq!((exact.values, exact.terms), (vec![1.0, 2.0, 3.0, 4.0], vec![3.0, 3.0, 0.0, 0.0]));
        assert!(matches!(rope("ROPE", &plain(2, 4), &x, &[0]), Err(OracleError::Parameter { .. })));
        assert!(rope("ROPE", &plain(6, NEOX), &x, &[0]).is_err());
        assert!(rope("ROPE", &plain(4, MROPE), &x, &[0; 4]).is_err());
    }

    #[test]
    fn pairs_by_mode_and_back() {
        let normal = rope("ROPE", &plain(4, NORMAL), &[1.0, 0.0, 1.0, 0.0], &[1]).unwrap();
        let (a, b) = (1.0f64, 0.1f64);
        assert_eq!(normal.values, [a.cos(), a.sin(), b.cos(), b.sin()]);
        // |x| (1 + angle i)
        assert_eq!(normal.terms, [1.0, 1.0, 1.0 + b, 1.0 + b]);
        let neox = rope("ROPE_BACK", &plain(4, NEOX), &[1.0, 0.0, 0.0, 1.0], &[1]).unwrap();
        assert_eq!(neox.values, [a.cos(), b.sin(), -a.sin(), b.cos()]);
        let mut inner = plain(2, NEOX);
        inner[15] = 1;
        let inner = rope("ROPE", &inner, &[7.0, 1.0, 0.0, 7.0], &[1]).unwrap();
        assert_eq!(inner.values, [7.0, a.cos(), a.sin(), 7.0]);
    }

    #[test]
    fn sections_take_their_own_positions() {
        let origins = |mode, sections, n_dims| {
            let angles = Angles {
                n_dims,
                freq_base: 100.0,
                freq_scale: 1.0,
                ext_factor: 0.0,
                attn_factor: 1.0,
                ramp: [0.0; 2],
                factors: None,
            };
            Rope { mode, n_dims, offset: 0, sections, angles }.origins()
        };
        assert_eq!(origins(MROPE, [2, 1, 0, 1], 10), [(0, 0), (0, 1), (1, 2), (3, 3), (0, 4)]);
        assert_eq!(origins(IMROPE, [1, 1, 0, 2], 8), [(0, 0), (1, 1), (3, 2), (3, 3)]);
        assert_eq!(origins(VISION, [2, 3, 0, 0], 6), [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (0, 0)]);
    }
}
