//! The rotation of q and k of attention.
//!
//! What rounding does to a rotated pair is what the oracle of ROPE says (`ops/exact/rope.rs`); the error that a pair brings along
//! is turned with it.

use ndarray::Array3;

use super::{Looked, Site, Stop, packed, those_held};
use crate::model::LayerKind;
use crate::ops::exact::{ROPE_STEPS, turn_terms};
use crate::ops::{Rope, RopePairing, RopeSections, Tracked};
use crate::question::Question;

impl Site<'_> {
    /// The rotation that the file and b11434 give.
    pub(in crate::question) fn rope(&self) -> Rope {
        let h = self.hparams();
        Rope {
            n_dims: h.n_rot,
            freq_base: h.rope_freq_base.into(),
            sections: h.rope_sections,
            layout: RopeSections::Interleaved,
            pairing: RopePairing::Half,
        }
    }

    /// `[n_tokens, n_head, head_dim]` of q or k in this step, rotated.
    ///
    /// # Errors
    /// If the positions that the dump holds are damaged.
    pub(in crate::question) fn rotated(
        &self,
        mut x: Array3<Tracked>,
        rope: &Rope,
    ) -> Result<Array3<Tracked>, Stop> {
        rotate(&mut x, rope, &self.positions()?);
        Ok(x)
    }

    /// The four channels of each token's position: what the graph read, if the dump holds it. Of text llama.cpp sets the fourth to
    /// 0 (`llm_graph_input_pos::set_input`, llama-graph.cpp).
    fn positions(&self) -> Result<Vec<[i64; 4]>, Stop> {
        let positions = &self.ubatch().positions;
        let dump = self.subject.dump;
        if let Some(leaf) =
            dump.leaves().iter().find(|leaf| leaf.name == "inp_pos" && leaf.step == Some(self.step))
            && let Some(bytes) = dump.leaf_bytes(leaf)?
        {
            let read: Vec<i64> =
                bytes.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes).into()).collect();
            if let [t, h, w, extra] = read.chunks(positions.len().max(1)).collect::<Vec<_>>()[..] {
                return Ok((0..positions.len()).map(|i| [t[i], h[i], w[i], extra[i]]).collect());
            }
        }
        Ok(positions.iter().map(|&p| p.into()).map(|p: i64| [p, p, p, 0]).collect())
    }

    /// Scores q and k rotated as candidates change it.
    ///
    /// # Errors
    /// If this is another kind of layer, or the dump does not hold them.
    pub(in crate::question) fn rotations(
        &self,
        question: &Question,
        change: impl Fn(&str, Rope) -> Rope,
    ) -> Looked {
        self.require(LayerKind::Attention)?;
        let trial = |(kind, normed, occurrence)| {
            let (rotated, x) = (self.occurrence(kind, occurrence)?, self.tensor(normed)?);
            let x = x.shaped(self.heads_shape(kind))?;
            self.trial(question, kind, rotated, |candidate| {
                Ok(Some(packed(self.rotated(x.clone(), &change(candidate, self.rope()))?)))
            })
        };
        those_held([("Qcur", "Qcur_normed", 0), ("Kcur", "Kcur_normed", 1)].map(trial))
    }

    /// `[n_tokens, n_head, head_dim]` of q (`Qcur`) or k in this step.
    pub(in crate::question) fn heads_shape(&self, kind: &str) -> (usize, usize, usize) {
        let h = self.hparams();
        let n_head = if kind == "Qcur" { h.n_head } else { h.n_head_kv };
        (self.ubatch().positions.len(), n_head, h.n_embd_head)
    }
}

fn rotate(x: &mut Array3<Tracked>, rope: &Rope, positions: &[[i64; 4]]) {
    for (mut token, position) in x.outer_iter_mut().zip(positions) {
        for turn in rope.turns(position) {
            let ((a, b), (sin, cos)) = (turn.pair, turn.angle.sin_cos());
            let share = turn_terms(turn.angle.abs(), turn.power as f64);
            for mut head in token.outer_iter_mut() {
                let (xa, xb) = (head[a], head[b]);
                let terms = (xa.value().abs() + xb.value().abs()) * share;
                let turned = |by_a: f64, by_b: f64| {
                    let value = xa.value() * by_a + xb.value() * by_b;
                    let inherited = (xa.spread() * by_a).hypot(xb.spread() * by_b);
                    Tracked::computed(value, terms, ROPE_STEPS).with_inherited(inherited)
                };
                (head[a], head[b]) = (turned(cos, -sin), turned(sin, cos));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn a_pair_turns_with_its_errors_and_the_rest_passes() {
        let rope = Rope {
            n_dims: 4,
            freq_base: 100.0,
            sections: [2, 0, 0, 0],
            layout: RopeSections::Contiguous,
            pairing: RopePairing::Half,
        };
        let given = Tracked::exact;
        let uncertain = Tracked::computed(3.0, 3.0, 1.0);
        let mut x = array![[[given(1.0), given(0.0), given(0.0), uncertain, given(7.0)]]];
        rotate(&mut x, &rope, &[[2, 2, 2, 0]]);
        // pair 0 by 2, pair 1 by 2 * 100^(-1/2)
        let (a, b) = (2f64, 0.2f64);
        let values = x.mapv(|x| x.value());
        assert_eq!(values, array![[[a.cos(), -3.0 * b.sin(), a.sin(), 3.0 * b.cos(), 7.0]]]);
        // four roundings of the length; of the second pair 0.2 more, and what turns of an error of 3
        assert_eq!((x[[0, 0, 0]].terms(), x[[0, 0, 0]].spread()), (1.0, 2.0));
        let own = 2.0 * 3.0 * 1.2;
        assert!((x[[0, 0, 1]].spread() - (3.0 * b.sin()).hypot(own)).abs() < 1e-14);
        assert_eq!(x[[0, 0, 4]].spread(), 0.0);
    }
}
