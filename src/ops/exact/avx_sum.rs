//! The order in which ggml-cpu adds up a dot product of f16 values on x86 with AVX, FMA and F16C (`ggml_vec_dot_f16`, vec.cpp;
//! `GGML_F16_VEC_FMA` and `GGML_F32x8_REDUCE`, simd-mappings.h): four registers of eight lanes, each a chain of fused
//! multiply-adds in f32, then a tree. What does not fill them is added in f64, product by product.

/// Lanes of a register.
const LANES: usize = 8;
/// Registers that are summed side by side.
const REGISTERS: usize = 4;

/// The product of two rows of f16 values, to the bit.
pub(super) fn avx_dot(x: &[f32], y: &[f32]) -> f32 {
    let mut sums = [[0f32; LANES]; REGISTERS];
    let (x_steps, x_rest) = x.as_chunks::<{ LANES * REGISTERS }>();
    let (y_steps, y_rest) = y.as_chunks::<{ LANES * REGISTERS }>();
    for (x, y) in x_steps.iter().zip(y_steps) {
        for (register, sums) in sums.iter_mut().enumerate() {
            for (lane, sum) in sums.iter_mut().enumerate() {
                let at = register * LANES + lane;
                *sum = x[at].mul_add(y[at], *sum);
            }
        }
    }
    let lane = |lane: usize| (sums[0][lane] + sums[2][lane]) + (sums[1][lane] + sums[3][lane]);
    let [a, b, c, d] = [0, 1, 2, 3].map(|half| lane(half) + lane(half + LANES / 2));
    let whole = f64::from((a + b) + (c + d));
    x_rest.iter().zip(y_rest).fold(whole, |sum, (x, y)| sum + f64::from(x * y)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_added_as_a_tree_and_the_rest_in_order() {
        let mut x = [0f32; 33];
        // 2^24 + 1 is not an f32. Lanes 0 and 8 are in the first two registers, lanes 0 and 16 meet first.
        (x[0], x[8], x[16]) = (16_777_216.0, 1.0, -16_777_216.0);
        assert_eq!(avx_dot(&x, &[1.0; 33]), 1.0);
        (x[0], x[8], x[16]) = (16_777_216.0, -16_777_216.0, 1.0);
        assert_eq!(avx_dot(&x, &[1.0; 33]), 0.0);
        // the rest is added to the sum in f64
        (x[0], x[8], x[16], x[32]) = (16_777_216.0, 0.0, 0.0, 3.0);
        assert_eq!(avx_dot(&x, &[1.0; 33]), 16_777_220.0);
    }
}
