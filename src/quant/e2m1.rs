//! E2M1, the four-bit float that [`MXFP4`](super::mxfp4) and [`NVFP4`](super::nvfp4) share.
//!
//! ```text
//! bit 3 sign, bits 1-2 exponent (bias 1), bit 0 mantissa
//! ```
//! ggml keeps twice the value, which is an integer, and halves the scale instead.

/// Twice the value of every code. Code 8 is +0: ggml's table is one of integers.
pub(super) const DOUBLED: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_format() {
        for (code, &doubled) in DOUBLED.iter().enumerate() {
            let (exponent, mantissa) = (code as i32 >> 1 & 3, (code & 1) as f32);
            let magnitude =
                if exponent == 0 { mantissa / 2.0 } else { (1.0 + mantissa / 2.0) * 2f32.powi(exponent - 1) };
            let sign = if code & 8 == 0 { 1.0 } else { -1.0 };
            assert_eq!(doubled, 2.0 * sign * magnitude, "code {code}");
        }
    }
}
