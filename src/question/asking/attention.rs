//! Attention from the queries, keys and values that the dump holds.
//!
//! ```text
//! q         [n_tokens, n_head, head_dim]          behind norm and rotation
//! k, v      [n_cells, n_head_kv, head_dim]        of each stream, all steps up to this one
//! kq        [n_streams, n_head, n_tokens of a stream, n_kv]
//! ```
//! A cell is where a token's key lies: as long as nothing is taken back, tokens fill a stream's cells in the order in which they come.
//! Where something was, the cells are not known here, and the question is not asked.

use ndarray::{Array3, Array4, Axis, s};

use super::{Held, Site, Stop};
use crate::dump::Ubatch;
use crate::model::LayerKind;
use crate::ops::{Number, Tracked, dot, soft_max_row};
use crate::tensor::TensorId;

/// Which kv head a q head reads, of n_kv and n_q.
pub(in crate::question) type HeadMap = fn(usize, (usize, usize)) -> usize;

/// The map of b11434.
pub(in crate::question) fn blocked(head: usize, (n_kv, n_q): (usize, usize)) -> usize {
    head / (n_q / n_kv)
}

/// What attention reads in one step.
pub(in crate::question) struct Attention {
    q: Array3<Tracked>,
    streams: Vec<Stream>,
    type_k: String,
    type_v: String,
}

/// The cells of one stream, and the tokens of this step that lie in it.
struct Stream {
    k: Array3<Tracked>,
    v: Array3<Tracked>,
    /// For each of its tokens in this step, the cells that it sees.
    visible: Vec<Vec<bool>>,
}

/// A token in a cell: its step, which of the step's tokens it is, its sequences and position.
struct Cell<'a> {
    step: u32,
    token: usize,
    sequences: &'a [i32],
    position: i32,
}

impl<'a> Site<'a> {
    /// The attention of this layer.
    ///
    /// # Errors
    /// If this is another kind of layer, the dump does not hold the keys of every step so far, or where they lie is not known.
    pub(in crate::question) fn attention(&self) -> Result<Attention, Stop> {
        self.require(LayerKind::Attention)?;
        let h = self.hparams();
        let (n_head, n_head_kv, d) = (h.n_head, h.n_head_kv, h.n_embd_head);
        let q = self.tensor("Qcur")?.heads(n_head, d)?;
        let run = &self.subject.dump.manifest().run;
        let mut streams = Vec::new();
        for cells in self.cells()? {
            let mut k = Array3::from_elem((cells.len(), n_head_kv, d), Tracked::default());
            let mut v = k.clone();
            let mut loaded: Option<(u32, Array3<Tracked>, Array3<Tracked>)> = None;
            for (at, cell) in cells.iter().enumerate() {
                if loaded.as_ref().is_none_or(|(step, ..)| *step != cell.step) {
                    let of = |kind: &str, occurrence| {
                        let name = format!("{kind}-{}", self.layer.unwrap_or_default());
                        self.at(TensorId { step: cell.step, name, occurrence })
                    };
                    loaded = Some((
                        cell.step,
                        of("Kcur", 1)?.heads(n_head_kv, d)?,
                        of("Vcur", 0)?.heads(n_head_kv, d)?,
                    ));
                }
                let (_, keys, values) = loaded.as_ref().expect("just loaded");
                k.index_axis_mut(Axis(0), at).assign(&keys.index_axis(Axis(0), cell.token));
                v.index_axis_mut(Axis(0), at).assign(&values.index_axis(Axis(0), cell.token));
            }
            let own = cells.iter().filter(|cell| cell.step == self.step);
            let sees = |token: &Cell<'_>, cell: &Cell<'_>| {
                cell.position <= token.position && cell.sequences.contains(&token.sequences[0])
            };
            let visible: Vec<Vec<bool>> =
                own.map(|token| cells.iter().map(|cell| sees(token, cell)).collect()).collect();
            if !visible.is_empty() {
                streams.push(Stream { k, v, visible });
            }
        }
        Ok(Attention { q, streams, type_k: run.type_k.clone(), type_v: run.type_v.clone() })
    }

    /// The tokens in the cells of each stream, those of this step included.
    fn cells(&self) -> Result<Vec<Vec<Cell<'a>>>, Stop> {
        let run = &self.subject.dump.manifest().run;
        let so_far: &[Ubatch] = &run.ubatches[..=self.step as usize];
        if so_far.iter().any(|ubatch| !ubatch.before.is_empty()) {
            return Err(Stop::NotKnown("where keys lie after the memory was changed".to_owned()));
        }
        let is_one = run.kv_unified != Some(false);
        let mut streams: Vec<(i32, Vec<Cell<'_>>)> = Vec::new();
        for ubatch in so_far {
            for (token, (sequences, &position)) in ubatch.seq_ids.iter().zip(&ubatch.positions).enumerate() {
                let stream = if is_one { 0 } else { sequences.first().copied().unwrap_or(0) };
                let cell = Cell { step: ubatch.step, token, sequences, position };
                match streams.iter_mut().find(|(id, _)| *id == stream) {
                    Some((_, cells)) => cells.push(cell),
                    None => streams.push((stream, vec![cell])),
                }
            }
        }
        streams.sort_by_key(|(id, _)| *id);
        Ok(streams.into_iter().map(|(_, cells)| cells).collect())
    }
}

impl Attention {
    /// `q k^T`, packed as the reference's `kq`, with keys stored in `type_k` (the dump's own, if none is given).
    ///
    /// # Errors
    /// If the extents are others, or how values of the type are rounded is not known.
    pub(in crate::question) fn scores(
        &self,
        kq: &Held,
        map: HeadMap,
        type_k: Option<&str>,
    ) -> Result<Vec<Tracked>, Stop> {
        let round = rounding(type_k.unwrap_or(&self.type_k))?;
        let (mut scores, per_stream) = self.like(kq, |stream| stream.k.dim().0)?;
        let heads = (self.streams[0].k.dim().1, self.q.dim().1);
        for (at, (stream, mut scores)) in self.streams.iter().zip(scores.outer_iter_mut()).enumerate() {
            let k = stream.k.mapv(round);
            for ((head, t, cell), score) in scores.indexed_iter_mut() {
                if cell < k.dim().0 {
                    let q: Vec<Tracked> =
                        self.q.slice(s![at * per_stream + t, head, ..]).iter().map(|&q| round(q)).collect();
                    let key = k.slice(s![cell, map(head, heads), ..]);
                    *score = dot(&q, key.to_slice().expect("packed"));
                }
            }
        }
        Ok(super::held::packed(scores))
    }

    /// Softmax over the visible cells of the reference's scores times a factor, packed as `kq_soft_max`.
    ///
    /// # Errors
    /// If the extents are others.
    pub(in crate::question) fn soft_max(&self, kq: &Held, scale: f64) -> Result<Vec<Tracked>, Stop> {
        let (mut rows, _) = self.like(kq, |stream| stream.k.dim().0)?;
        rows.assign(&kq.array());
        for (stream, mut rows) in self.streams.iter().zip(rows.outer_iter_mut()) {
            for mut head in rows.outer_iter_mut() {
                for (mut row, visible) in head.outer_iter_mut().zip(&stream.visible) {
                    let row = row.as_slice_mut().expect("packed");
                    soft_max_row(row, Tracked::from_f64(scale), |cell| visible.get(cell) == Some(&true));
                }
            }
        }
        Ok(super::held::packed(rows))
    }

    /// The values weighted with the reference's probabilities, packed as `kqv`, with values stored in `type_v`.
    ///
    /// # Errors
    /// If the extents are others, or how values of the type are rounded is not known.
    pub(in crate::question) fn weighted(
        &self,
        probabilities: &Held,
        map: HeadMap,
        type_v: Option<&str>,
    ) -> Result<Vec<Tracked>, Stop> {
        let round = rounding(type_v.unwrap_or(&self.type_v))?;
        let (mut p, per_stream) = self.like(probabilities, |stream| stream.v.dim().0)?;
        p.assign(&probabilities.array());
        let (_, n_head, d) = self.q.dim();
        let heads = (self.streams[0].v.dim().1, n_head);
        let shape = (self.streams.len(), n_head, per_stream, d);
        let mut kqv = Array4::from_elem(shape, Tracked::default());
        for (at, stream) in self.streams.iter().enumerate() {
            let v = stream.v.mapv(round);
            for ((head, t, i), sum) in kqv.index_axis_mut(Axis(0), at).indexed_iter_mut() {
                for (cell, _) in stream.visible[t].iter().enumerate().filter(|(_, visible)| **visible) {
                    *sum += round(p[[at, head, t, cell]]) * v[[cell, map(head, heads), i]];
                }
            }
        }
        Ok(super::held::packed(kqv))
    }

    /// Zeros of the extents of `kq`, and the tokens of each stream.
    fn like(&self, kq: &Held, cells: impl Fn(&Stream) -> usize) -> Result<(Array4<Tracked>, usize), Stop> {
        let (n_tokens, n_head, _) = self.q.dim();
        let unknown = |what: &str| Stop::NotKnown(what.to_owned());
        if self.streams.is_empty() {
            return Err(unknown("which tokens there are"));
        }
        let per_stream = n_tokens / self.streams.len();
        if self.streams.iter().any(|stream| stream.visible.len() != per_stream) {
            return Err(unknown("which stream a token is in"));
        }
        let n_kv = kq.shape[3];
        let expected = [self.streams.len(), n_head, per_stream, n_kv];
        if kq.shape != expected || self.streams.iter().any(|stream| cells(stream) > n_kv) {
            let (tensor, got) = (kq.id.to_string(), kq.shape.to_vec());
            return Err(Stop::Failed(super::AskError::Extents { tensor, got, expected: expected.to_vec() }));
        }
        Ok((Array4::from_elem(expected, Tracked::default()), per_stream))
    }
}

/// How a value is rounded when it is stored in a cache of this type, or meets one in a product. The values are f32: `from_f64` of
/// `half` looks at the upper 20 bits of the mantissa only, and takes what lies just beyond the middle for the middle.
fn rounding(ty: &str) -> Result<fn(Tracked) -> Tracked, Stop> {
    match ty {
        "f32" => Ok(|x| x),
        "f16" => Ok(|x| Tracked::exact(half::f16::from_f32(x.value() as f32).to_f64())),
        "bf16" => Ok(|x| Tracked::exact(half::bf16::from_f32(x.value() as f32).to_f64())),
        other => Err(Stop::NotKnown(format!("how a cache of type {other} rounds"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_just_beyond_the_middle_is_rounded_up() {
        let of = |ty, x: f32| rounding(ty).unwrap()(Tracked::exact(x.into())).value();
        let ulp = f32::EPSILON;
        // bf16 has 7 bits behind the point, f16 has 10
        assert_eq!(of("bf16", 1.0 + 2f32.powi(-8) + ulp), 1.0 + 2f64.powi(-7));
        assert_eq!(of("bf16", 1.0 + 2f32.powi(-8)), 1.0);
        assert_eq!(of("f16", 1.0 + 2f32.powi(-11) + ulp), 1.0 + 2f64.powi(-10));
        assert_eq!(of("f32", 1.0 + ulp), f64::from(1.0 + ulp));
        assert!(matches!(rounding("q8_0"), Err(Stop::NotKnown(_))));
    }
}
