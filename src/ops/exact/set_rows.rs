//! SET_ROWS: the rows of source 0 written into a copy of source 2 at the row numbers of source 1. Values are moved: terms
//! are 0. A cache of another type rounds what is written, and the result must be that to the bit; what rounds it is whoever
//! compares a moved value with a result of its type.
//!
//! ```text
//! rows {n0, n, b2, b3}   ids {n, c2, c3}   y {n0, n1, b2, b3};  matrix (i2, i3) of rows has the ids (i2 % c2, i3 % c3)
//! ```

use super::moves::floats;
use super::{Exact, Executed, Invocation, Oracle, OracleError};

pub(super) struct SetRows;

impl Oracle for SetRows {
    fn ops(&self) -> &'static [&'static str] {
        &["SET_ROWS"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let (rows, ids) = (floats(node, 0)?, node.source(1)?);
        let mut values = floats(node, 2)?;
        let ids = ids.ints().ok_or_else(|| node.shape("source 1 holds no integers"))?;
        let [width, n_rows, n2, n3] = node.ne.map(|n| n as usize);
        let [_, n, ..] = node.source(0)?.ne.map(|n| n as usize);
        let [of_ids, c2, c3, c4] = node.source(1)?.ne.map(|n| n as usize);
        let fits = node.source(0)?.ne == [width, n, n2, n3].map(|n| n as u64)
            && [of_ids, c4] == [n, 1]
            && [(c2, n2), (c3, n3)].iter().all(|&(part, whole)| part > 0 && whole.is_multiple_of(part))
            && rows.len() == width * n * n2 * n3
            && ids.len() == n * c2 * c3
            && values.len() == node.elements();
        node.require(fits, "rows, ids and result do not fit")?;
        for (at, row) in rows.chunks_exact(width.max(1)).enumerate() {
            let (i1, i2, i3) = (at % n, at / n % n2, at / n / n2);
            let id = ids[((i3 % c3) * c2 + i2 % c2) * n + i1];
            let row_of = usize::try_from(id).ok().filter(|&id| id < n_rows);
            let first = row_of.ok_or_else(|| node.shape(format!("row {id} of {n_rows}")))?;
            let first = ((i3 * n2 + i2) * n_rows + first) * width;
            values[first..][..width].copy_from_slice(row);
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
    fn writes_the_named_rows_and_keeps_the_others() {
        let float = |ne, values: &[f32]| Some(Operand { ne, data: Data::Float(values.to_vec()) });
        let ids = Some(Operand { ne: [1, 1, 1, 1], data: Data::Int(vec![1]) });
        let sources = [float([2, 1, 1, 1], &[8.0, 9.0]), ids, float([2, 2, 1, 1], &[1.0, 2.0, 3.0, 4.0])];
        let node =
            Invocation { op: "SET_ROWS", variant: None, params: &[], ne: [2, 2, 1, 1], sources: &sources };
        assert_eq!(SetRows.exact(&node).unwrap().values, [1.0, 2.0, 8.0, 9.0]);
    }

    #[test]
    fn matrices_of_rows_share_ids_in_turn() {
        let float = |ne, values: &[f32]| Some(Operand { ne, data: Data::Float(values.to_vec()) });
        let ids = |values: &[i64]| Some(Operand { ne: [1, 2, 1, 1], data: Data::Int(values.to_vec()) });
        // Rows of one element, one for each of 2 x 2 matrices of two rows; ids of two matrices.
        let rows = || float([1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let node = |sources: &[Option<Operand<'_>>]| {
            let ne = [1, 2, 2, 2];
            SetRows.exact(&Invocation { op: "SET_ROWS", variant: None, params: &[], ne, sources })
        };
        let values = node(&[rows(), ids(&[1, 0]), float([1, 2, 2, 2], &[0.0; 8])]).unwrap().values;
        assert_eq!(values, [0.0, 1.0, 2.0, 0.0, 0.0, 3.0, 4.0, 0.0]);
        for wrong in [[0, 2], [-1, 0]] {
            let refused = node(&[rows(), ids(&wrong), float([1, 2, 2, 2], &[0.0; 8])]);
            assert!(matches!(refused, Err(OracleError::Shape { .. })), "{wrong:?}");
        }
    }
}
