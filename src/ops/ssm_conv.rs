//! SSM_CONV: the causal depthwise convolution in front of the delta net.
//!
//! ```text
//! y[t][c] = sum_j w[c][j] x[t + j][c]
//! x  [d_conv - 1 + n_tokens, channels]: the state (the last d_conv - 1 columns before this call), then the new ones
//! w  [channels, d_conv];  y  [n_tokens, channels]
//! ```
//! Tap j = d_conv - 1 meets the current token. Sums in tap order, oldest first, in the arithmetic's own type
//! (`ggml_compute_forward_ssm_conv_f32`, ops.cpp).

use ndarray::{Array2, ArrayView2};

use super::Number;

/// Which end of the kernel meets the current token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapOrder {
    /// `w[c][d_conv - 1]` meets the current token (ggml).
    OldestFirst,
    /// `w[c][0]` meets the current token.
    NewestFirst,
}

/// Convolves each channel over time.
///
/// # Panics
/// If `x` has fewer rows than the kernel has taps, or another number of channels.
pub fn ssm_conv<T: Number>(x: ArrayView2<'_, T>, kernel: ArrayView2<'_, T>, order: TapOrder) -> Array2<T> {
    let (channels, d_conv) = kernel.dim();
    assert_eq!(x.ncols(), channels, "channels");
    let n_tokens = (x.nrows() + 1).checked_sub(d_conv).expect("the state holds d_conv - 1 columns");
    Array2::from_shape_fn((n_tokens, channels), |(t, c)| {
        let window: Vec<T> = (0..d_conv).map(|j| x[[t + j, c]]).collect();
        let taps = (0..d_conv).map(|j| match order {
            TapOrder::OldestFirst => kernel[[c, j]],
            TapOrder::NewestFirst => kernel[[c, d_conv - 1 - j]],
        });
        T::in_order(&window, &taps.collect::<Vec<T>>())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn the_last_tap_meets_the_current_token() {
        let x = array![[0.0f32], [0.0], [1.0], [2.0]]; // state 0 0, tokens 1 2
        let kernel = array![[100.0, 10.0, 1.0]];
        assert_eq!(ssm_conv(x.view(), kernel.view(), TapOrder::OldestFirst), array![[1.0], [12.0]]);
        assert_eq!(ssm_conv(x.view(), kernel.view(), TapOrder::NewestFirst), array![[100.0], [210.0]]);
    }
}
