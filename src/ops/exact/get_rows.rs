//! GET_ROWS: `y[t] = a[id[t]]`, per matrix of dimensions 2 and 3 of the ids. Values are decoded and moved: terms are 0.

use super::moves::integer;
use super::{Data, Exact, Executed, Invocation, Oracle, OracleError};

pub(super) struct GetRows;

impl Oracle for GetRows {
    fn ops(&self) -> &'static [&'static str] {
        &["GET_ROWS"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let (table, ids) = (node.source(0)?, node.source(1)?);
        let ids_of = ids.ints().ok_or_else(|| node.shape("source 1 holds no integers"))?;
        let [width, rows, n2, n3] = table.ne.map(|n| n as usize);
        node.require(node.ne[0] as usize == width && n2 > 0 && n3 > 0, "the row has another width")?;
        node.require(ids_of.len() * width == node.elements(), "as many rows as ids")?;
        let per_matrix = ids.ne[0] as usize;
        let mut values = Vec::with_capacity(node.elements());
        let mut decoded = vec![0.0f32; width];
        for (i, &id) in ids_of.iter().enumerate() {
            let id = usize::try_from(id).ok().filter(|&id| id < rows);
            let id = id.ok_or_else(|| node.shape(format!("id {} of {rows} rows", ids_of[i])))?;
            let matrix = i / per_matrix.max(1);
            let (i2, i3) = (matrix % (ids.ne[1] as usize), matrix / (ids.ne[1] as usize));
            let row = (i3 % n3 * n2 + i2 % n2) * rows + id;
            match &table.data {
                Data::Weight(weight) => {
                    weight.decode_row(row, &mut decoded);
                    values.extend(decoded.iter().map(|&value| f64::from(value)));
                }
                Data::Float(all) | Data::Narrow(_, all) => {
                    values.extend(all[row * width..][..width].iter().map(|&value| f64::from(value)));
                }
                Data::Int(all) => {
                    for &int in &all[row * width..][..width] {
                        values.push(integer(node, int)?);
                    }
                }
            }
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
    use crate::ops::exact::Operand;

    #[test]
    fn rows_of_integers_are_taken_as_they_are() {
        let ints = |ne, values: &[i64]| Some(Operand { ne, data: Data::Int(values.to_vec()) });
        let rows = |table: &[i64]| {
            let sources = [ints([2, 2, 1, 1], table), ints([1, 1, 1, 1], &[1])];
            let ne = [2, 1, 1, 1];
            GetRows.exact(&Invocation { op: "GET_ROWS", variant: None, params: &[], ne, sources: &sources })
        };
        assert_eq!(rows(&[1, 2, -3, 16_777_217]).unwrap().values, [-3.0, 16_777_217.0]);
        let refused = rows(&[1, 2, 3, i64::MAX]).unwrap_err().to_string();
        assert_eq!(refused, "GET_ROWS: 9223372036854775807 has more digits than f64");
    }

    #[test]
    fn an_id_beyond_the_table_is_an_error() {
        let table = Some(Operand { ne: [2, 2, 1, 1], data: Data::Float(vec![1.0, 2.0, 3.0, 4.0]) });
        let ids =
            |ids: &[i64]| Some(Operand { ne: [ids.len() as u64, 1, 1, 1], data: Data::Int(ids.to_vec()) });
        let sources = [table.clone(), ids(&[1, 0])];
        let node =
            Invocation { op: "GET_ROWS", variant: None, params: &[], ne: [2, 2, 1, 1], sources: &sources };
        assert_eq!(GetRows.exact(&node).unwrap().values, [3.0, 4.0, 1.0, 2.0]);
        let sources = [table, ids(&[1, 2])];
        assert!(GetRows.exact(&Invocation { sources: &sources, ..node }).is_err());
    }
}
