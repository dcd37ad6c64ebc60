//! ARANGE: numbers at equal distances (`ggml_compute_forward_arange_f32`, ops.cpp). It has no source.
//!
//! ```text
//! y[i] = start + step i    {n},  n = ceil((stop - start) / step) in f32;  start, stop, step = params 0, 1, 2
//! terms = |start| + |step i|;  2 additions
//! ```

use super::{Exact, Executed, Invocation, Oracle, OracleError};

pub(super) struct Arange;

impl Oracle for Arange {
    fn ops(&self) -> &'static [&'static str] {
        &["ARANGE"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let (start, step) = (node.float(0), node.float(2));
        let steps = (0..numbers(node)?).map(|i| step * i as f64);
        Ok(Exact::collect(2.0, steps.map(|moved| (start + moved, start.abs() + moved.abs()))))
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let (start, step) = (node.single(0), node.single(2));
        Ok((0..numbers(node)?).map(|i| executed.ggml.isa.madd(step, i as f32, start)).collect())
    }
}

/// How many numbers the result holds.
fn numbers(node: &Invocation<'_>) -> Result<usize, OracleError> {
    let (start, stop, step) = (node.single(0), node.single(1), node.single(2));
    let numbers = ((stop - start) / step).ceil();
    let fits = node.ne[1..] == [1, 1, 1] && numbers >= 0.0 && numbers as u64 == node.ne[0];
    node.require(fits, "the result holds another number of steps")?;
    Ok(node.ne[0] as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(range: [f32; 3], n: u64) -> Result<Exact, OracleError> {
        let params = range.map(|value| value.to_bits() as i32);
        Arange.exact(&Invocation {
            op: "ARANGE",
            variant: None,
            params: &params,
            ne: [n, 1, 1, 1],
            sources: &[],
        })
    }

    #[test]
    fn steps_from_the_start_and_ends_before_the_stop() {
        let exact = of([-1.0, 0.75, 0.5], 4).unwrap();
        assert_eq!((exact.values, exact.terms), (vec![-1.0, -0.5, 0.0, 0.5], vec![1.0, 1.5, 2.0, 2.5]));
    }

    #[test]
    fn another_number_of_steps_is_an_error() {
        assert!(of([0.0, 3.0, 1.0], 3).is_ok());
        for (range, n) in
            [([0.0, 3.0, 1.0], 4), ([0.0, 3.0, 0.0], 3), ([3.0, 0.0, 1.0], 3), ([f32::NAN, 1.0, 1.0], 0)]
        {
            assert!(matches!(of(range, n), Err(OracleError::Shape { .. })), "{range:?}");
        }
    }
}
