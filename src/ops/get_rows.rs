//! GET_ROWS: `y[t] = W[id[t]]`, decoded. Mirrors `ggml_compute_forward_get_rows` (ops.cpp).

use ndarray::{Array2, Axis};

use super::{Number, Rows};

/// The rows of a table for each id: `[ids.len(), n_in]`.
///
/// # Panics
/// If an id is not below the number of rows: the caller checks token ids.
pub fn get_rows<T: Number>(table: &Rows<'_>, ids: &[u32]) -> Array2<T> {
    let mut y = Array2::from_elem((ids.len(), table.n_in), T::ZERO);
    let mut decoded = vec![0.0; table.n_in];
    for (&id, mut row) in ids.iter().zip(y.axis_iter_mut(Axis(0))) {
        table.decode_row(id as usize, &mut decoded);
        for (value, &w) in row.iter_mut().zip(&decoded) {
            *value = T::from_f32(w);
        }
    }
    y
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::GgmlType;
    use ndarray::array;

    #[test]
    fn repeats_and_reorders_rows() {
        let table: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|w| w.to_le_bytes()).collect();
        let rows = Rows::new(GgmlType::F32, &table, 2, 2).unwrap();
        assert_eq!(get_rows::<f32>(&rows, &[1, 0, 1]), array![[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]]);
    }
}
