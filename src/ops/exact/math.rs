//! SQR, SQRT, LOG, SIN, COS, CLAMP: a function of each element, in f32.
//!
//! ```text
//! SQR SQRT     terms = |y|, one rounding           LOG SIN COS  terms = |y|: the C library's, off by a unit in the last place
//! CLAMP        max(min(x, params 1), params 0)     terms = 0: chosen, not computed
//! ```

use super::moves::{floats, singles};
use super::{Exact, Executed, Invocation, Oracle, OracleError};

pub(super) struct Math;

/// One rounding, or one unit in the last place.
const STEPS: f64 = 1.0;

impl Oracle for Math {
    fn ops(&self) -> &'static [&'static str] {
        &["SQR", "SQRT", "LOG", "SIN", "COS", "CLAMP"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let x = floats(node, 0)?;
        node.require(x.len() == node.elements(), "source and result have different sizes")?;
        let function: fn(f64) -> f64 = match node.op {
            "SQR" => |x| x * x,
            "SQRT" => f64::sqrt,
            "LOG" => f64::ln,
            "SIN" => f64::sin,
            "COS" => f64::cos,
            _ => {
                let (low, high) = (node.float(0), node.float(1));
                return Ok(Exact::moved(x.into_iter().map(|x| x.min(high).max(low)).collect()));
            }
        };
        Ok(Exact::collect(STEPS, x.into_iter().map(|x| (function(x), function(x).abs()))))
    }

    fn ggml(&self, node: &Invocation<'_>, _: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let x = singles(node, 0)?;
        node.require(x.len() == node.elements(), "source and result have different sizes")?;
        let function: fn(f32) -> f32 = match node.op {
            "SQR" => |x| x * x,
            "SQRT" => f32::sqrt,
            "LOG" => f32::ln,
            "SIN" => f32::sin,
            "COS" => f32::cos,
            _ => return Ok(self.exact(node)?.into_singles()),
        };
        Ok(x.iter().map(|&x| function(x)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    #[test]
    fn functions_are_told_apart() {
        let sources = [Some(Operand { ne: [2, 1, 1, 1], data: Data::Float(vec![4.0, 0.25]) })];
        let bounds = [0.5f32.to_bits() as i32, 3f32.to_bits() as i32];
        let values = |op| {
            let node = Invocation { op, variant: None, params: &bounds, ne: [2, 1, 1, 1], sources: &sources };
            Math.exact(&node).unwrap().values
        };
        assert_eq!(values("SQR"), [16.0, 0.0625]);
        assert_eq!(values("SQRT"), [2.0, 0.5]);
        assert_eq!(values("LOG"), [4f64.ln(), 0.25f64.ln()]);
        assert_eq!(values("SIN"), [4f64.sin(), 0.25f64.sin()]);
        assert_eq!(values("COS"), [4f64.cos(), 0.25f64.cos()]);
        assert_eq!(values("CLAMP"), [3.0, 0.5]);
    }
}
