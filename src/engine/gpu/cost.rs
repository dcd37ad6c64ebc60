//! What each kernel must move and compute: bytes of device memory and operations, as formulas of a launch's sizes.
//!
//! `tests/kernel_bytes.rs` holds the emulator's counts against the bytes; time divided by them is what a device reaches of its bandwidth.

mod table;

pub use table::{MODELS, example};

/// What a launch must do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Bytes of device memory that are read, each counted once.
    pub bytes_read: usize,
    /// Bytes of device memory that are written, each counted once.
    pub bytes_written: usize,
    /// Operations on numbers: a sum, product, comparison or function each; a fused multiply-add is two.
    pub operations: usize,
}

impl Cost {
    /// Bytes that are read and written.
    pub fn bytes(&self) -> usize {
        self.bytes_read + self.bytes_written
    }

    /// Operations per byte: below what a device computes while it moves a byte, memory bounds the kernel.
    pub fn intensity(&self) -> f64 {
        self.operations as f64 / self.bytes() as f64
    }
}

/// Sizes of a launch. Each model says which it takes; the others do not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sizes {
    /// Values of a row: of a matrix of weights n_in, of gates the number of heads.
    pub n: usize,
    /// Rows.
    pub rows: usize,
    /// Rows of a matrix of weights.
    pub n_out: usize,
    /// Bytes of such a row as it is stored.
    pub row_bytes: usize,
    /// Values that a transform mixes.
    pub block: usize,
    /// Outputs that are written beside a fold's own: 0 or 1.
    pub plain: usize,
    /// Sequences.
    pub n_seqs: usize,
    /// Tokens of each sequence.
    pub n_tokens: usize,
    /// Heads of q, or of v in the delta net.
    pub n_head: usize,
    /// Heads of k and v in attention, of q and k in the delta net.
    pub n_head_kv: usize,
    /// Values of a head.
    pub head_dim: usize,
    /// Values of a head that rotate.
    pub n_rot: usize,
    /// Cells of a cache that every token sees; with many tokens the last one, and each one before it one less.
    pub n_kv: usize,
    /// Bytes of a value in a cell.
    pub cell_bytes: usize,
    /// Taps of a convolution.
    pub taps: usize,
    /// Parts that a row is divided into.
    pub parts: usize,
    /// Candidates that are kept.
    pub k: usize,
}

impl Sizes {
    pub(super) fn tokens(&self) -> usize {
        self.n_seqs * self.n_tokens
    }

    /// Values of all heads of all tokens.
    pub(super) fn heads(&self) -> usize {
        self.tokens() * self.n_head * self.head_dim
    }

    /// The same of k or v.
    pub(super) fn heads_kv(&self) -> usize {
        self.tokens() * self.n_head_kv * self.head_dim
    }

    /// Pairs of a token and a cell that it sees.
    pub(super) fn seen(&self) -> usize {
        (0..self.n_tokens).map(|t| self.n_kv - t).sum::<usize>() * self.n_seqs
    }

    /// Values of the states of the delta net.
    pub(super) fn states(&self) -> usize {
        self.n_seqs * self.n_head * self.head_dim * self.head_dim
    }

    /// Channels of the convolution in front of the delta net.
    pub(super) fn channels(&self) -> usize {
        (2 * self.n_head_kv + self.n_head) * self.head_dim
    }
}

/// The model of one kernel, or of several that differ in a type.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// The kernel; `*` stands for a type of weights or of cells.
    pub kernel: &'static str,
    /// What [`Model::elements`] counts.
    pub element: &'static str,
    /// How many elements a launch has.
    pub elements: fn(&Sizes) -> usize,
    /// What it must do.
    pub cost: fn(&Sizes) -> Cost,
    /// All accesses together are at most so many times the bytes of [`Model::cost`]; what is above 1 caches serve.
    pub again: fn(&Sizes) -> usize,
    /// Why a byte is accessed more than once; empty if none is.
    pub why: &'static str,
}

impl Model {
    fn fits(&self, kernel: &str) -> bool {
        match self.kernel.split_once('*') {
            None => self.kernel == kernel,
            Some((head, tail)) => {
                kernel.len() > head.len() + tail.len() && kernel.starts_with(head) && kernel.ends_with(tail)
            }
        }
    }
}

/// The model of a kernel: of those that fit, the one that says most of its name.
pub fn model(kernel: &str) -> Option<&'static Model> {
    MODELS.iter().filter(|model| model.fits(kernel)).max_by_key(|model| model.kernel.len())
}

#[cfg(test)]
mod tests {
    use super::super::kernels;
    use super::*;

    #[test]
    fn every_kernel_has_a_model_and_every_model_a_kernel() {
        let all: Vec<String> = kernels().into_iter().map(|(name, ..)| name).collect();
        let without: Vec<&String> = all.iter().filter(|name| model(name).is_none()).collect();
        assert!(without.is_empty(), "no model of {without:?}");
        for of in MODELS {
            let is_used = all.iter().any(|name| model(name).is_some_and(|found| found.kernel == of.kernel));
            assert!(is_used, "no kernel is {}", of.kernel);
        }
    }

    #[test]
    fn the_longest_name_decides() {
        assert_eq!(model("mul_mat_q4_0_f32").unwrap().kernel, "mul_mat_*_f32");
        assert_eq!(model("mul_mat_vec_q4_0_f32").unwrap().kernel, "mul_mat_vec_*_f32");
        assert_eq!(model("mul_mat_vec_q4_0_q8_1").unwrap().kernel, "mul_mat_vec_*_q8_1");
        assert!(model("mul_mat_vec__f33").is_none());
    }

    #[test]
    fn a_product_with_one_token_written_out() {
        // 3 rows of 34 bytes for 128 weights, x of 128 and y of 3 values
        let sizes = Sizes { n: 128, n_out: 3, row_bytes: 34, n_seqs: 1, n_tokens: 1, ..Sizes::default() };
        let cost = (model("mul_mat_vec_pq2_0_f32").unwrap().cost)(&sizes);
        assert_eq!(cost, Cost { bytes_read: 3 * 34 + 4 * 128, bytes_written: 12, operations: 2 * 3 * 128 });
        assert!((cost.intensity() - 768.0 / 626.0).abs() < 1e-12);
    }
}
