//! FLASH_ATTN_EXT as ggml-cpu computes it: row by row, in the kernel that it takes.

use std::ops::Range;

use rayon::prelude::*;

use super::attention::{Attention, Key, Query, of_cache};
use super::{Executed, Invocation, OracleError};
use crate::arithmetic::{
    Factor, FlashKernel, FlashLogit, FlashShape, FlashSum, Ggml, KV_TILE, Kernel, Primitives, dot_one_by_one,
};
use crate::tensor::GgmlType;

/// The result, in the order of operations of the build that made the dump.
pub(super) fn attend(
    node: &Invocation<'_>,
    executed: &Executed<'_>,
    shape: FlashShape,
) -> Result<Vec<f32>, OracleError> {
    let (ggml, primitives) = (executed.ggml, executed.primitives);
    let kernel = FlashKernel::of(ggml.reference_kernels, shape);
    let attention = Attention::of(node, <[f32]>::to_vec)?;
    let ty = shape.types[1];
    let unknown = || node.arithmetic(format!("products with keys of {ty}"));
    let keys = attention.k_rows().map(|row| of_cache(ty, row)).collect::<Option<_>>().ok_or_else(unknown)?;
    let flash = Flash { attention, ggml, primitives, kernel, types: shape.types, keys };
    let rows: Option<Vec<Vec<f32>>> =
        (0..flash.attention.queries()).into_par_iter().map(|at| flash.row(at)).collect();
    Ok(rows.ok_or_else(unknown)?.concat())
}

/// An attention as ggml-cpu computes it.
struct Flash<'a> {
    attention: Attention<'a>,
    ggml: Ggml,
    primitives: &'a Primitives,
    kernel: FlashKernel,
    /// Of queries, keys and values.
    types: [GgmlType; 3],
    /// The rows of k, of all heads and batches.
    keys: Vec<Factor>,
}

impl Flash<'_> {
    /// A row of the result; none if the product with a key is not known.
    fn row(&self, at: usize) -> Option<Vec<f32>> {
        let query = self.attention.query(at);
        let n_kv = self.attention.n_kv();
        let mut total = FlashSum::new(self.attention.dv());
        match self.kernel {
            FlashKernel::Tiled => {
                let tiles = query.keys.chunk_by(|a, b| a.index / KV_TILE == b.index / KV_TILE);
                tiles.for_each(|tile| self.add_tile(&mut total, &query, tile));
                self.add_sink(&mut total, &query);
            }
            FlashKernel::OneChunk => total = self.part(&query, 0..n_kv)?,
            FlashKernel::Split => {
                let size = n_kv.div_ceil(self.ggml.n_threads.max(1) as usize).max(1);
                for first in (0..n_kv).step_by(size) {
                    total.join(self.ggml.isa, &self.part(&query, first..first + size)?);
                }
            }
        }
        Some(total.finish())
    }

    /// The sum over some of the keys; a sink counts among the first.
    fn part(&self, query: &Query<'_>, range: Range<usize>) -> Option<FlashSum> {
        let (isa, [_, k, v]) = (self.ggml.isa, self.types);
        let q = (self.primitives.activation)(Kernel::VecDot, isa, k, query.q)?;
        let mut sum = FlashSum::new(self.attention.dv());
        for key in query.keys.iter().filter(|key| range.contains(&key.index)) {
            let row = &self.keys[query.first + key.index];
            let dot = (self.primitives.dot)(Kernel::VecDot, isa, row, &q)?;
            let logit = logit(query).of(dot, key.mask);
            (self.primitives.flash_key)(&mut sum, isa, logit, key.v, v == GgmlType::F16);
        }
        if range.start == 0 {
            self.add_sink(&mut sum, query);
        }
        Some(sum)
    }

    /// Adds the visible keys of a tile.
    fn add_tile(&self, total: &mut FlashSum, query: &Query<'_>, tile: &[Key<'_>]) {
        let mut logits = [f32::NEG_INFINITY; KV_TILE];
        for key in tile {
            let dot = dot_one_by_one(self.ggml.isa, 0.0, query.q, key.k);
            logits[key.index % KV_TILE] = logit(query).of(dot, key.mask);
        }
        total.add_tile(self.ggml, logits, tile.iter().map(|key| (key.index % KV_TILE, key.v)));
    }

    fn add_sink(&self, sum: &mut FlashSum, query: &Query<'_>) {
        if let Some(sink) = query.sink {
            sum.add_sink(self.ggml.isa, self.kernel, sink as f32);
        }
    }
}

/// How the products of a query become logits.
fn logit(query: &Query<'_>) -> FlashLogit {
    FlashLogit { scale: query.scale, softcap: query.softcap, slope: query.single_slope }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arithmetic::GGML_CPU;
    use crate::ops::exact::{Data, Operand};

    #[test]
    fn keys_of_blocks_are_multiplied_by_their_codes() {
        let mut k = vec![0.0; 32];
        (k[0], k[1]) = (127.0, 3.0);
        let ggml = |k: &[f32]| {
            let operand = |ne, data| Some(Operand { ne, data });
            let row = [32, 1, 1, 1];
            let sources = [
                operand(row, Data::Float(vec![0.5; 32])),
                operand(row, Data::Narrow(GgmlType::Q8_0, k.to_vec())),
                operand([1; 4], Data::Float(vec![2.0])),
                None,
                None,
            ];
            let params = [1f32.to_bits() as i32, 0, 0];
            let node = Invocation {
                op: "FLASH_ATTN_EXT",
                variant: None,
                params: &params,
                ne: [1; 4],
                sources: &sources,
            };
            let ggml = Ggml::of("CPU : ").unwrap();
            let executed = Executed { ggml, primitives: &GGML_CPU, contiguous: &[] };
            let types = [GgmlType::F32, GgmlType::Q8_0, GgmlType::F32];
            attend(&node, &executed, FlashShape { types, tokens: 1, batches: 1, n_kv: 1 })
        };
        assert_eq!(ggml(&k).unwrap(), [2.0]);
        k[1] = 3.3; // no code of a block whose scale is 1
        assert!(matches!(ggml(&k), Err(OracleError::Arithmetic { .. })));
    }
}
