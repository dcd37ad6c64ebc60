//! The transform of an activation in front of a folded weight, and its inverse behind a folded table.
//!
//! ```text
//! fold:     W_file = W diag(s) H       per block of the input dimension, H the normalised Sylvester matrix
//! forward:  y = W_file H (s . P(x))    P reorders heads, for `ssm_out` only
//! inverse:  x = s . (H row)            for a row of the embedding table
//! ```

use crate::ops::{Real, fwht};

/// What is applied to an activation, in which order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoldOrder {
    /// Signs, then the transform: in front of a matmul.
    SignsThenWht,
    /// The transform, then signs: behind an embedding lookup.
    WhtThenSigns,
    /// The transform alone.
    WhtOnly,
    /// Signs alone.
    SignsOnly,
    /// Nothing.
    None,
}

/// When the heads are reordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PermutationTime {
    /// Before the signs, which are indexed in the file's order.
    BeforeSigns,
    /// After the signs, before the transform.
    AfterSigns,
}

/// A reordering of v heads of `head_dim` elements each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeadPermutation {
    /// Which head of the source becomes head i.
    source: Vec<usize>,
    head_dim: usize,
    time: PermutationTime,
}

impl HeadPermutation {
    /// From llama.cpp's order of v heads (tiled: `k + n_k r`) to the file's (grouped: `k rep + r`).
    pub fn tiled_to_grouped(n_k: usize, rep: usize, head_dim: usize) -> HeadPermutation {
        let source = (0..n_k * rep).map(|grouped| grouped / rep + n_k * (grouped % rep)).collect();
        HeadPermutation { source, head_dim, time: PermutationTime::BeforeSigns }
    }

    /// The same heads the other way round.
    pub fn inverse(&self) -> HeadPermutation {
        let mut source = vec![0; self.source.len()];
        for (i, &from) in self.source.iter().enumerate() {
            source[from] = i;
        }
        HeadPermutation { source, ..*self }
    }

    /// The same permutation at another time.
    pub fn at(self, time: PermutationTime) -> HeadPermutation {
        HeadPermutation { time, ..self }
    }

    /// Reorders a row in place.
    pub fn apply<T: Copy>(&self, row: &mut [T]) {
        let old = row.to_vec();
        for (head, &from) in row.chunks_exact_mut(self.head_dim).zip(&self.source) {
            head.copy_from_slice(&old[from * self.head_dim..][..self.head_dim]);
        }
    }
}

/// One transform of rows of one width.
#[derive(Clone, PartialEq, Debug)]
pub struct Transform<'a> {
    /// What is applied.
    pub order: FoldOrder,
    /// Elements of a Hadamard block.
    pub block: usize,
    /// Whether the transform is scaled by `1 / sqrt(block)`.
    pub normalize: bool,
    /// One sign per element of the row; `None` for `sign_mode = identity`.
    pub signs: Option<&'a [i8]>,
    /// Reordering of heads that comes first.
    pub permutation: Option<HeadPermutation>,
}

impl Transform<'_> {
    /// Transforms one row in place.
    ///
    /// # Panics
    /// If the row has another width than the signs, or is not whole blocks.
    pub fn apply<T: Real>(&self, row: &mut [T]) {
        let permute = |row: &mut [T], time| match &self.permutation {
            Some(permutation) if permutation.time == time => permutation.apply(row),
            _ => {}
        };
        permute(row, PermutationTime::BeforeSigns);
        if matches!(self.order, FoldOrder::SignsThenWht | FoldOrder::SignsOnly) {
            self.apply_signs(row);
        }
        permute(row, PermutationTime::AfterSigns);
        if matches!(self.order, FoldOrder::SignsThenWht | FoldOrder::WhtThenSigns | FoldOrder::WhtOnly) {
            fwht(row, self.block, self.normalize);
        }
        if self.order == FoldOrder::WhtThenSigns {
            self.apply_signs(row);
        }
    }

    fn apply_signs<T: Real>(&self, row: &mut [T]) {
        let Some(signs) = self.signs else { return };
        assert_eq!(signs.len(), row.len(), "one sign per element");
        for (value, &sign) in row.iter_mut().zip(signs) {
            if sign < 0 {
                *value = -*value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_go_from_tiled_to_grouped() {
        // n_k = 2, rep = 3: tiled order is (k0 r0) (k1 r0) (k0 r1) (k1 r1) (k0 r2) (k1 r2)
        let permutation = HeadPermutation::tiled_to_grouped(2, 3, 1);
        let mut heads = [0, 10, 1, 11, 2, 12];
        permutation.apply(&mut heads);
        assert_eq!(heads, [0, 1, 2, 10, 11, 12]);
        permutation.inverse().apply(&mut heads);
        assert_eq!(heads, [0, 10, 1, 11, 2, 12]);
    }

    #[test]
    fn the_inverse_order_undoes_the_forward_one() {
        let signs = [1, -1, -1, 1, 1, 1, -1, 1, -1, -1, 1, -1, 1, -1, 1, 1];
        let forward = Transform {
            order: FoldOrder::SignsThenWht,
            block: 4,
            normalize: true,
            signs: Some(&signs),
            permutation: None,
        };
        let inverse = Transform { order: FoldOrder::WhtThenSigns, ..forward.clone() };
        let x: Vec<f64> = (0..16).map(f64::from).collect();
        let mut y = x.clone();
        forward.apply(&mut y);
        assert_ne!(x, y);
        inverse.apply(&mut y);
        assert_eq!(x, y); // a block of 4 scales by 1/2, exact on small integers
    }
}
