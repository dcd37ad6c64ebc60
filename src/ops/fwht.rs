//! FWHT, the fast Walsh-Hadamard transform: `y = H x` per block, H the normalised Sylvester matrix (symmetric, H H = I).
//!
//! Within each block of n (a power of two), strides 1, 2, 4 .. n/2 in ascending order, `low = a + b`, `high = a - b`;
//! then a scale of `1 / sqrt(n)`. This add tree is fixed, and for n an even power of two the scale is exact, so every
//! implementation that keeps to it gives the same bits. Stands for `ggml_mul_mat` with a Hadamard matrix.

use super::Number;

/// Transforms every block of `block` elements in place; `normalize` false leaves out the scale.
///
/// # Panics
/// If `block` is not a power of two that divides the row.
pub fn fwht<T: Number>(row: &mut [T], block: usize, normalize: bool) {
    assert!(block.is_power_of_two() && row.len().is_multiple_of(block), "block {block} of {}", row.len());
    let scale = T::from_f64(1.0 / (block as f64).sqrt());
    for block_values in row.chunks_exact_mut(block) {
        let mut stride = 1;
        while stride < block {
            for pair in block_values.chunks_exact_mut(2 * stride) {
                let (lower, upper) = pair.split_at_mut(stride);
                for (a, b) in lower.iter_mut().zip(upper) {
                    (*a, *b) = (*a + *b, *a - *b);
                }
            }
            stride *= 2;
        }
        if normalize {
            for value in block_values {
                *value = *value * scale;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn is_the_sylvester_matrix() {
        for column in 0..8usize {
            let mut x = [0.0f64; 8];
            x[column] = 1.0;
            fwht(&mut x, 8, false);
            for (row, value) in x.iter().enumerate() {
                let sign = if (row & column).count_ones() % 2 == 0 { 1.0 } else { -1.0 };
                assert_eq!(*value, sign, "H[{row}][{column}]");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn is_its_own_inverse(x in prop::collection::vec(-1000i16..1000, 256)) {
            let x: Vec<f64> = x.into_iter().map(f64::from).collect();
            let mut y = x.clone();
            fwht(&mut y, 64, true); // 64: the scale 1/8 is exact, and so is everything on small integers
            fwht(&mut y, 64, true);
            prop_assert_eq!(x, y);
        }
    }
}
