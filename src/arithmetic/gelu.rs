//! GELU by table: `ggml_vec_gelu_f32` (vec.h) looks up the f16 nearest to x in a table of f16 results.

use half::f16;

use super::{Ggml, Isa};

const SQRT_2_OVER_PI: f32 = 0.797_884_6;
const GELU_COEF_A: f32 = 0.044_715;
const GELU_QUICK_COEF: f32 = -1.702;
/// Beyond this the result is 0 or x.
const LIMIT: f32 = 10.0;

/// `ggml_vec_gelu_f32`.
pub fn gelu(ggml: Ggml, x: f32) -> f32 {
    if x <= -LIMIT {
        0.0
    } else if x >= LIMIT {
        x
    } else {
        looked_up(ggml.isa, x)
    }
}

/// `ggml_vec_gelu_quick_f32`.
pub fn gelu_quick(x: f32) -> f32 {
    let x = f16::from_f32(x).to_f32();
    f16::from_f32(x * (1.0 / (1.0 + (GELU_QUICK_COEF * x).exp()))).to_f32()
}

/// An entry of `ggml_table_gelu_f16`: `ggml_gelu_f32` of a value of f16, rounded to f16.
fn looked_up(isa: Isa, x: f32) -> f32 {
    let x = f16::from_f32(x).to_f32();
    let inner = isa.madd(GELU_COEF_A * x, x, 1.0);
    let tanh = (SQRT_2_OVER_PI * x * inner).tanh();
    f16::from_f32(0.5 * x * (1.0 + tanh)).to_f32()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_f16() {
        let ggml = Ggml::of("CPU : ").unwrap();
        // 0.84119 is between 0.84082 and 0.84131 in f16
        assert_eq!(gelu(ggml, 1.0), f16::from_f32(0.841_192).to_f32());
        assert_eq!(gelu(ggml, 1.0 + 2f32.powi(-20)), gelu(ggml, 1.0));
        assert_eq!((gelu(ggml, -10.0), gelu(ggml, 10.5)), (0.0, 10.5));
        assert_eq!(gelu_quick(0.0), 0.0);
    }
}
