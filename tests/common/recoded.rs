//! Copies of a model whose codes are read in another way than their type says: what a wrong decoder would compute with. Every
//! reader here is its own; none of the library's decoders is used.

use std::path::Path;

use half::f16;
use lockstep::gguf::Gguf;
use lockstep::tensor::GgmlType;

use super::{Edit, ModelFile, bytes};

/// The codes of a block, byte by byte.
struct Block {
    ty: GgmlType,
    digits: Vec<Vec<i32>>,
    d: f32,
}

impl Block {
    /// None for a type that is not read here.
    fn read(ty: GgmlType, block: &[u8]) -> Option<Block> {
        let (codes, d): (_, [u8; 2]) = match ty {
            GgmlType::PQ2_0 => (&block[2..], [block[0], block[1]]),
            GgmlType::PTQ1_0 => (&block[..26], [block[26], block[27]]),
            _ => return None,
        };
        let two_bits = |&byte: &u8| [0, 2, 4, 6].map(|shift| i32::from(byte >> shift & 3)).to_vec();
        let trits = |(at, &byte): (usize, &u8)| {
            let n = if at < 24 { 5 } else { 4 };
            let power = |n: u32| (u32::from(byte) * 3u32.pow(n)) & 255;
            (0..n).map(|n| ((power(n) * 3) >> 8) as i32).collect()
        };
        let digits = match ty {
            GgmlType::PQ2_0 => codes.iter().map(two_bits).collect(),
            _ => codes.iter().enumerate().map(trits).collect(),
        };
        Some(Block { ty, digits, d: f16::from_le_bytes(d).to_f32() })
    }

    /// The codes of these bytes: the first of each, then the second ones.
    fn planes(&self, bytes: std::ops::Range<usize>) -> Vec<i32> {
        let bytes = &self.digits[bytes];
        let digits = bytes.iter().map(Vec::len).max().unwrap();
        (0..digits).flat_map(|n| bytes.iter().filter_map(move |byte| byte.get(n).copied())).collect()
    }

    /// The codes in the order of the elements.
    fn codes(&self) -> Vec<i32> {
        match self.ty {
            GgmlType::PQ2_0 => self.digits.concat(),
            _ => [self.planes(0..16), self.planes(16..24), self.planes(24..26)].concat(),
        }
    }

    /// What a candidate of `code_map` or `code_order` makes of it.
    fn misread(mut self, candidate: &str) -> Vec<f32> {
        let n = if self.ty == GgmlType::PQ2_0 { 4 } else { 3 };
        let mut codes = self.codes();
        match candidate {
            "byte_by_byte" => codes = self.digits.concat(),
            "planes" => codes = self.planes(0..self.digits.len()),
            "digits_reversed" => {
                self.digits.iter_mut().for_each(|byte| byte.reverse());
                codes = self.codes();
            }
            "bytes_swapped" => {
                self.digits.chunks_mut(2).for_each(|two| two.reverse());
                codes = self.codes();
            }
            "reversed_order" => codes.reverse(),
            _ => {}
        }
        let level = |c: i32| match candidate {
            "from_zero" => c as f32,
            "signed" => [0, 1, if n == 4 { -2 } else { -1 }, -1][c as usize] as f32,
            "excess" => (c - n / 2) as f32,
            "symmetric" => c as f32 - (n - 1) as f32 / 2.0,
            "reversed_levels" => (1 - c) as f32,
            _ => (c - 1) as f32,
        };
        codes.into_iter().map(|c| level(c) * self.d).collect()
    }
}

/// A copy in F32 of what a candidate of a question makes of every matrix of PQ2_0 or PTQ1_0, with the same fold.
pub fn recoded(path: &Path, question: &str, candidate: &str) -> ModelFile {
    let candidate = match (question, candidate) {
        ("code_map", "reversed") => "reversed_levels",
        ("code_order", "reversed") => "reversed_order",
        (_, candidate) => candidate,
    };
    let gguf = Gguf::open(path).unwrap();
    let mut edit = Edit::of(path);
    for info in gguf.tensors() {
        let data = gguf.tensor(&info.name).unwrap().data;
        let blocks = data.chunks_exact(info.ty.block_bytes());
        let blocks: Option<Vec<Block>> = blocks.map(|block| Block::read(info.ty, block)).collect();
        if let Some(blocks) = blocks {
            let values: Vec<f32> = blocks.into_iter().flat_map(|block| block.misread(candidate)).collect();
            edit = edit.tensor(&info.name, info.dims(), GgmlType::F32, bytes(&values));
        }
    }
    edit.write()
}
