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

    /// The value at a flat index, or `None` past the end.
    pub fn get(&self, index: usize) -> Option<f64> {
        match self {
            Values::F32(values) => values.get(index).map(|&value| f64::from(value)),
            Values::F64(values) => values.get(index).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_f64_and_never_past_the_end() {
        assert_eq!(Values::F32(&[0.5, 1.5]).get(1), Some(1.5));
        assert_eq!(Values::F64(&[0.1]).get(0), Some(0.1));
        assert_eq!(Values::F64(&[0.1]).get(1), None);
        assert!(Values::F32(&[]).is_empty());
    }
}
