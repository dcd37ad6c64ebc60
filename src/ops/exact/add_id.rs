//! ADD_ID: to each token's result of an expert the bias of that expert is added (`ggml_compute_forward_add_id_f32`, ops.cpp).
//!
//! ```text
//! y[n][i][t] = a[n][i][t] + b[n][ids[i][t]]
//! a, y  {n, n_used, n_t}   b  {n, n_expert}   ids  {n_used, n_t}
//! terms = |a| + |b|;  2 additions
//! ```

use super::moves::singles;
use super::{Exact, Executed, Invocation, Oracle, OracleError};

pub(super) struct AddId;

impl Oracle for AddId {
    fn ops(&self) -> &'static [&'static str] {
        &["ADD_ID"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        let pairs = pairs(node)?.into_iter().map(|(a, b)| (f64::from(a), f64::from(b)));
        Ok(Exact::collect(2.0, pairs.map(|(a, b)| (a + b, a.abs() + b.abs()))))
    }

    fn ggml(&self, node: &Invocation<'_>, _: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        Ok(pairs(node)?.into_iter().map(|(a, b)| a + b).collect())
    }
}

/// Each element of the first source with that of its expert's row.
fn pairs(node: &Invocation<'_>) -> Result<Vec<(f32, f32)>, OracleError> {
    let (a, b, ids) = (singles(node, 0)?, singles(node, 1)?, node.source(2)?);
    let chosen = ids.ints().ok_or_else(|| node.shape("source 2 holds no integers"))?;
    let [n, n_used, n_t, n_3] = node.ne;
    let n_expert = node.source(1)?.ne[1];
    let fits = n_3 == 1
        && node.source(0)?.ne == node.ne
        && node.source(1)?.ne == [n, n_expert, 1, 1]
        && ids.ne == [n_used, n_t, 1, 1]
        && a.len() == node.elements()
        && b.len() as u64 == n * n_expert
        && chosen.len() as u64 == n_used * n_t;
    node.require(fits, "the sources and the result do not fit")?;
    let n = n as usize;
    let mut pairs = Vec::with_capacity(a.len());
    for (a, &expert) in a.chunks_exact(n.max(1)).zip(chosen) {
        let row = usize::try_from(expert).ok().filter(|&expert| (expert as u64) < n_expert);
        let row = row.ok_or_else(|| node.shape(format!("expert {expert} of {n_expert}")))?;
        pairs.extend(a.iter().copied().zip(b[row * n..][..n].iter().copied()));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::exact::{Data, Operand};

    /// Two tokens with one expert of three each.
    fn of(ids: &[i64]) -> Result<Exact, OracleError> {
        let float = |ne, values: &[f32]| Some(Operand { ne, data: Data::Float(values.to_vec()) });
        let ids = Some(Operand { ne: [1, 2, 1, 1], data: Data::Int(ids.to_vec()) });
        let biases = float([2, 3, 1, 1], &[10.0, 20.0, 30.0, -40.0, 50.0, 60.0]);
        let sources = [float([2, 1, 2, 1], &[1.0, 2.0, 3.0, 4.0]), biases, ids];
        AddId.exact(&Invocation {
            op: "ADD_ID",
            variant: None,
            params: &[],
            ne: [2, 1, 2, 1],
            sources: &sources,
        })
    }

    #[test]
    fn the_bias_is_that_of_the_expert() {
        let exact = of(&[1, 0]).unwrap();
        assert_eq!(
            (exact.values, exact.terms),
            (vec![31.0, -38.0, 13.0, 24.0], vec![31.0, 42.0, 13.0, 24.0])
        );
    }

    #[test]
    fn an_expert_that_there_is_not_is_an_error() {
        for expert in [-1, 3] {
            let refused = of(&[0, expert]).unwrap_err();
            assert_eq!(refused.to_string(), format!("ADD_ID: expert {expert} of 3"));
        }
        assert!(matches!(of(&[0]), Err(OracleError::Shape { .. })));
    }
}
