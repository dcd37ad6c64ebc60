//! SET_ROWS: the rows of source 0 written into a copy of source 2 at the row numbers of source 1. Values are moved: terms
//! are 0. A cache of another type rounds what is written, and the result must be that to the bit; what rounds it is whoever
//! compares a moved value with a result of its type.

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
        let width = node.ne[0] as usize;
        let fits = node.source(0)?.width() == width
            && rows.len() == ids.len() * width
            && values.len() == node.elements();
        node.require(fits && node.ne[2] == 1 && node.ne[3] == 1, "rows, ids and result do not fit")?;
        for (row, &id) in rows.chunks_exact(width.max(1)).zip(ids) {
            let at = usize::try_from(id).ok().and_then(|id| values.get_mut(id * width..(id + 1) * width));
            at.ok_or_else(|| node.shape(format!("row {id} of {}", node.ne[1])))?.copy_from_slice(row);
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
}
