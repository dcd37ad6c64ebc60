//! GLU: `y = f(gate) up`, element by element, of two tensors or of the halves of each row of one.
//!
//! ```text
//! REGLU         relu(gate) up                     GEGLU, GEGLU_QUICK, GEGLU_ERF   gelu(gate) up, by that form
//! SWIGLU        silu(gate) up                     SWIGLU_CLAMP  silu(min(gate, l)) clamp(up, -l, l)
//! SWIGLU_OAI    x / (1 + exp(-a x)) (1 + clamp(up, -l, l)),  x = min(gate, l)
//! gate, up  {n, ..}, or one {2 n, ..}: gate first, or last if params 1 is set;   a, l = params 2, 3
//! ```
//! terms are those of f, in `activation`, times the other factor. [`STEPS`] roundings as for UNARY.

use super::activation::{Point, collect, gelu, gelu_erf, gelu_quick, relu, silu};
use super::moves::singles;
use super::{Exact, Executed, Invocation, Oracle, OracleError};

pub(super) struct Glu;

/// Roundings on the way: exponential, addition, division, product.
const STEPS: f64 = 4.0;

impl Oracle for Glu {
    fn ops(&self) -> &'static [&'static str] {
        &["GLU"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let (gate, up) = halves(node)?;
        let (alpha, limit) = (node.float(2), node.float(3));
        // Not `clamp`, which panics for a limit that is negative or NaN.
        let within = |up: f64| up.min(limit).max(-limit);
        let pairs = gate.into_iter().zip(up).map(|(gate, up)| (f64::from(gate), f64::from(up)));
        let gated = |f: fn(f64) -> Point| move |(gate, up): (f64, f64)| f(gate).times(up);
        Ok(match node.variant {
            Some("REGLU") => collect(STEPS, pairs.map(gated(|x| Point::plain(relu(x))))),
            Some("SWIGLU") => collect(STEPS, pairs.map(gated(|x| silu(x, 1.0)))),
            Some("GEGLU") => collect(STEPS, pairs.map(gated(gelu))),
            Some("GEGLU_QUICK") => collect(STEPS, pairs.map(gated(gelu_quick))),
            Some("GEGLU_ERF") => collect(STEPS, pairs.map(gated(gelu_erf))),
            Some("SWIGLU_CLAMP") => {
                collect(STEPS, pairs.map(|(gate, up)| silu(gate.min(limit), 1.0).times(within(up))))
            }
            Some("SWIGLU_OAI") => {
                collect(STEPS, pairs.map(|(gate, up)| silu(gate.min(limit), alpha).times(1.0 + within(up))))
            }
            _ => return Err(node.unknown()),
        })
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let (mut gate, up) = halves(node)?;
        let (ggml, primitives, width) = (executed.ggml, executed.primitives, node.ne[0] as usize);
        let (alpha, limit) = (node.single(2), node.single(3));
        let within = |up: f32| match up {
            up if up < -limit => -limit,
            up if limit < up => limit,
            up => up,
        };
        let mut by_element = |f: &dyn Fn(f32, f32) -> f32| {
            gate.iter_mut().zip(&up).for_each(|(gate, &up)| *gate = f(*gate, up));
        };
        match node.variant {
            Some("SWIGLU") => {
                let rows = gate.chunks_exact_mut(width).zip(up.chunks_exact(width));
                rows.for_each(|(gate, up)| (primitives.swiglu_row)(ggml, gate, up));
            }
            Some("REGLU") => by_element(&|gate, up| if gate > 0.0 { gate * up } else { 0.0 }),
            // Where the result of the gate is 0 by its limit, nothing is multiplied.
            Some("GEGLU") => {
                by_element(&|gate, up| if gate <= -10.0 { 0.0 } else { (primitives.gelu)(ggml, gate) * up })
            }
            Some("GEGLU_QUICK") => by_element(&|gate, up| (primitives.gelu_quick)(gate) * up),
            Some("SWIGLU_CLAMP") => by_element(&|gate, up| {
                let gate = if limit < gate { limit } else { gate };
                gate / (1.0 + (-gate).exp()) * within(up)
            }),
            Some("SWIGLU_OAI") => by_element(&|gate, up| {
                let gate = if limit < gate { limit } else { gate };
                gate / (1.0 + (alpha * -gate).exp()) * (within(up) + 1.0)
            }),
            _ => return Err(node.arithmetic("this function")),
        }
        Ok(gate)
    }
}

/// Gate and up.
fn halves(node: &Invocation<'_>) -> Result<(Vec<f32>, Vec<f32>), OracleError> {
    let first = singles(node, 0)?;
    if node.sources.get(1).is_some_and(Option::is_some) {
        let second = singles(node, 1)?;
        let fits = first.len() == node.elements() && second.len() == node.elements();
        node.require(fits, "the two sources and the result have different sizes")?;
        return Ok((first.into_owned(), second.into_owned()));
    }
    let width = node.ne[0] as usize;
    let fits = first.len() == 2 * node.elements() && node.source(0)?.width() == 2 * width;
    node.require(fits && width > 0, "a row of the source is not twice one of the result")?;
    let part = |n: usize| first.chunks_exact(width).skip(n).step_by(2).flatten().copied().collect();
    let swapped = node.int(1) != 0;
    Ok((part(usize::from(swapped)), part(usize::from(!swapped))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arithmetic::{GGML_CPU, Ggml};
    use crate::ops::exact::{Data, Operand};

    fn float(ne: [u64; 4], values: &[f32]) -> Option<Operand<'static>> {
        Some(Operand { ne, data: Data::Float(values.to_vec()) })
    }

    #[test]
    fn one_tensor_is_two_halves() {
        let joint = [float([4, 2, 1, 1], &[1.0, -2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])];
        let node =
            Invocation { op: "GLU", variant: Some("REGLU"), params: &[], ne: [2, 2, 1, 1], sources: &joint };
        assert_eq!(Glu.exact(&node).unwrap().values, [3.0, 0.0, 35.0, 48.0]);
        let swapped = Glu.exact(&Invocation { params: &[0, 1], ..node }).unwrap();
        assert_eq!(swapped.values, [3.0, -8.0, 35.0, 48.0]);
        assert!(Glu.exact(&Invocation { ne: [4, 2, 1, 1], ..node }).is_err());
        assert!(Glu.exact(&Invocation { variant: Some("WIGLU"), ..node }).is_err());
    }

    #[test]
    fn the_limits_hold_on_both_sides() {
        let two = [float([2, 1, 1, 1], &[9.0, -9.0]), float([2, 1, 1, 1], &[-4.0, 4.0])];
        let params = [0, 0, 1f32.to_bits() as i32, 2f32.to_bits() as i32];
        let node = Invocation {
            op: "GLU",
            variant: Some("SWIGLU_OAI"),
            params: &params,
            ne: [2, 1, 1, 1],
            sources: &two,
        };
        // min(9, 2) and -9; 1 + clamp(-4) = -1, 1 + clamp(4) = 3
        let expected = [-silu(2.0, 1.0).value, 3.0 * silu(-9.0, 1.0).value];
        assert_eq!(Glu.exact(&node).unwrap().values, expected);
        let clamped = Glu.exact(&Invocation { variant: Some("SWIGLU_CLAMP"), ..node }).unwrap();
        assert_eq!(clamped.values, [-2.0 * silu(2.0, 1.0).value, 2.0 * silu(-9.0, 1.0).value]);
        let ggml = Ggml::of("CPU : ").unwrap();
        let executed = Executed { ggml, primitives: &GGML_CPU, contiguous: &[] };
        let single = |x: f32| x / (1.0 + (-x).exp());
        let of = |variant| Glu.ggml(&Invocation { variant: Some(variant), ..node }, &executed).unwrap();
        assert_eq!(of("SWIGLU_OAI"), [-single(2.0), single(-9.0) * 3.0]);
        assert_eq!(of("SWIGLU_CLAMP"), [single(2.0) * -2.0, single(-9.0) * 2.0]);
    }
}
