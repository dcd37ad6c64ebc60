//! A source of a node: packed logical values, whatever the strides of the tensor were.

use crate::ops::Rows;
use crate::tensor::GgmlType;

/// The values of a source.
#[derive(Clone, Debug)]
pub enum Data<'a> {
    /// Single-precision values.
    Float(Vec<f32>),
    /// Values of a type with fewer digits, which f32 holds exactly: of f16, bf16, or of a cache made of blocks.
    Narrow(GgmlType, Vec<f32>),
    /// Integers: tokens, positions, row indices.
    Int(Vec<i64>),
    /// A weight, decoded row by row.
    Weight(Rows<'a>),
}

/// A source of a node.
#[derive(Clone, Debug)]
pub struct Operand<'a> {
    /// Extents, dimension 0 fastest.
    pub ne: [u64; 4],
    /// The values, packed.
    pub data: Data<'a>,
}

impl Operand<'_> {
    /// All values as f32; a weight is decoded whole, integers are none.
    pub fn floats(&self) -> Option<std::borrow::Cow<'_, [f32]>> {
        match &self.data {
            Data::Float(values) | Data::Narrow(_, values) => Some(values.into()),
            Data::Int(_) => None,
            Data::Weight(rows) => {
                let mut values = vec![0.0; rows.n_in * rows.n_out];
                for (n, row) in values.chunks_exact_mut(rows.n_in).enumerate() {
                    rows.decode_row(n, row);
                }
                Some(values.into())
            }
        }
    }

    /// The integers, if that is what it holds.
    pub fn ints(&self) -> Option<&[i64]> {
        match &self.data {
            Data::Int(values) => Some(values),
            _ => None,
        }
    }

    /// The type of the values; none for integers.
    pub(super) fn ty(&self) -> Option<GgmlType> {
        match &self.data {
            Data::Float(_) => Some(GgmlType::F32),
            Data::Narrow(ty, _) => Some(*ty),
            Data::Int(_) => None,
            Data::Weight(rows) => Some(rows.ty()),
        }
    }

    /// The flat index of an element, each index taken modulo the extent: how ggml repeats a smaller tensor.
    pub(super) fn at(&self, index: [usize; 4]) -> usize {
        let mut flat = 0;
        for d in (0..4).rev() {
            let n = self.ne[d] as usize;
            flat = flat * n + index[d] % n;
        }
        flat
    }

    /// Elements of a row.
    pub(super) fn width(&self) -> usize {
        self.ne[0] as usize
    }
}
