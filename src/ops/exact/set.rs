//! SET: source 1 written into a part of source 0. Values are moved: terms are 0.
//!
//! ```text
//! y = a, but y[offset + i0 + i1 nb1 + i2 nb2 + i3 nb3] = b[i0, i1, i2, i3]      a {any}, contiguous   b {smaller}
//! params  nb1, nb2, nb3, offset: in bytes of f32, counted in all of a; 4 whether in place, which changes nothing here
//! ```

use super::moves::floats;
use super::{Exact, Executed, Invocation, Oracle, OracleError, indices};

pub(super) struct Set;

/// Bytes of an element.
const F32: usize = size_of::<f32>();

impl Oracle for Set {
    fn ops(&self) -> &'static [&'static str] {
        &["SET"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let (mut values, part) = (floats(node, 0)?, floats(node, 1)?);
        node.require(values.len() == node.elements(), "source 0 and result have different sizes")?;
        let elements = |i: usize| usize::try_from(node.int(i)).ok().filter(|bytes| bytes.is_multiple_of(F32));
        let elements = |i: usize| {
            let bytes =
                elements(i).ok_or_else(|| node.parameter(format!("a stride of {} bytes", node.int(i))))?;
            Ok(bytes / F32)
        };
        let [nb1, nb2, nb3, offset] = [elements(0)?, elements(1)?, elements(2)?, elements(3)?];
        for ([i0, i1, i2, i3], value) in indices(node.source(1)?.ne).zip(part) {
            let at = offset + i0 + i1 * nb1 + i2 * nb2 + i3 * nb3;
            *values.get_mut(at).ok_or_else(|| node.shape("source 1 goes beyond source 0"))? = value;
        }
        Ok(Exact::moved(values))
    }

    fn ggml(&self, node: &Invocation<'_>, _: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        Ok(self.exact(node)?.into_singles())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    #[test]
    fn a_part_is_written_by_strides() {
        let float = |ne, values: &[f32]| Some(Operand { ne, data: Data::Float(values.to_vec()) });
        let sources = [float([3, 2, 1, 1], &[0.0; 6]), float([1, 2, 1, 1], &[1.0, 2.0])];
        let node = Invocation {
            op: "SET",
            variant: None,
            params: &[12, 24, 24, 4],
            ne: [3, 2, 1, 1],
            sources: &sources,
        };
        assert_eq!(Set.exact(&node).unwrap().values, [0.0, 1.0, 0.0, 0.0, 2.0, 0.0]);
        // the last element, and one beyond it
        assert!(Set.exact(&Invocation { params: &[12, 24, 24, 8], ..node }).is_ok());
        assert!(Set.exact(&Invocation { params: &[12, 24, 24, 12], ..node }).is_err());
        assert!(Set.exact(&Invocation { params: &[12, 24, 24, 2], ..node }).is_err());
        assert!(Set.exact(&Invocation { params: &[12, 24, 24, -4], ..node }).is_err());
    }
}
