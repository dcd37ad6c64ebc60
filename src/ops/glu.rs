//! GLU, variant SWIGLU: `y = silu(gate) * up`, element by element (`ggml_compute_forward_swiglu`, ops.cpp).

use ndarray::{Array, ArrayView, Dimension, Zip};

use super::{Number, silu_rows};

/// `silu(gate) * up`, both of one shape.
///
/// # Panics
/// If the shapes differ.
pub fn swiglu<T: Number, D: Dimension>(gate: ArrayView<'_, T, D>, up: ArrayView<'_, T, D>) -> Array<T, D> {
    let mut y = gate.to_owned();
    silu_rows(&mut y);
    Zip::from(&mut y).and(up).for_each(|gate, &up| *gate = *gate * up);
    y
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::silu;
    use ndarray::array;

    #[test]
    fn the_gate_goes_through_silu() {
        let y = swiglu(array![0.0f64, 1.0].view(), array![5.0, 2.0].view());
        assert_eq!(y, array![0.0, 2.0 * silu(1.0)]);
    }
}
