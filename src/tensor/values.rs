//! Packed values of a tensor, in the arithmetic of whoever computed them.

/// Packed values, dimension 0 fastest.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Values<'a> {
    /// Single precision: llama.cpp, the cpu engine in f32, every GPU engine.
    F32(&'a [f32]),
    /// Double precision: the cpu engine in f64.
    F64(&'a [f64]),
}

impl Values<'_> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Values::F32(values) => values.len(),
            Values::F64(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
