//! SSM_CONV: `y[c][t] = sum_j x[t + j][c] w[j][c]`.
//!
//! ```text
//! x  {d_conv - 1 + n_t, channels, n_s}   w  {d_conv, channels}   y  {channels, n_t, n_s}
//! terms = sum_j |x w|;  d_conv additions
//! ```

use super::moves::singles;
use super::{Exact, Executed, Invocation, Oracle, OracleError, indices};

pub(super) struct SsmConv;

impl Oracle for SsmConv {
    fn ops(&self) -> &'static [&'static str] {
        &["SSM_CONV"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let elements = convolved(node, |window, taps| {
            let products = window.iter().zip(taps).map(|(&x, &w)| f64::from(x) * f64::from(w));
            products.fold((0.0, 0.0), |(sum, terms), product| (sum + product, terms + product.abs()))
        })?;
        Ok(Exact::collect(node.source(1)?.ne[0] as f64, elements.into_iter()))
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        convolved(node, |window, taps| (executed.primitives.conv)(executed.ggml.isa, window, taps))
    }
}

/// What `element` makes of each window and the taps of its channel.
fn convolved<T>(node: &Invocation<'_>, element: impl Fn(&[f32], &[f32]) -> T) -> Result<Vec<T>, OracleError> {
    let (x_ne, w_ne) = (node.source(0)?.ne, node.source(1)?.ne);
    let (x, w) = (singles(node, 0)?, singles(node, 1)?);
    let [columns, channels, n_s, _] = x_ne.map(|n| n as usize);
    let d_conv = w_ne[0] as usize;
    let n_t = (columns + 1).saturating_sub(d_conv);
    let fits = w_ne[1] as usize == channels && node.ne == [channels, n_t, n_s, 1].map(|n| n as u64);
    node.require(fits, "window, kernel and result do not fit")?;
    let of = |[c, t, s, _]: [usize; 4]| {
        element(&x[(s * channels + c) * columns + t..][..d_conv], &w[c * d_conv..][..d_conv])
    };
    Ok(indices(node.ne).map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    #[test]
    fn the_window_slides_over_time() {
        let float = |ne, values: &[f32]| Some(Operand { ne, data: Data::Float(values.to_vec()) });
        let sources = [float([3, 1, 1, 1], &[1.0, 2.0, -3.0]), float([2, 1, 1, 1], &[10.0, 1.0])];
        let node =
            Invocation { op: "SSM_CONV", variant: None, params: &[], ne: [1, 2, 1, 1], sources: &sources };
        let exact = SsmConv.exact(&node).unwrap();
        assert_eq!((exact.values, exact.terms), (vec![12.0, 17.0], vec![12.0, 23.0]));
    }
}
