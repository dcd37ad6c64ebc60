//! The result of the fused operator as one tensor, for graphs in which it has a name ([`crate::engine::Dialect`]).
//!
//! ```text
//! [n_seqs n_tokens + n_seqs d, n_v d]    rows: outputs [n_seqs, n_tokens, n_v, d], then states [n_seqs, n_v, d, d]
//! ```
//! Mirrors `ggml_gated_delta_net`, of which `build_delta_net_fused` takes views.

use ndarray::{Array2, Array4};

use super::Heads;
use crate::engine::EngineError;
use crate::engine::cpu::Context;
use crate::ops::Real;

/// Emits outputs and states as they lie in the cache under the name of the operator, if it has one; returns them, or what the tap
/// put in their place.
pub(super) fn emit<T: Real>(
    context: &mut Context<'_, '_, '_>,
    il: usize,
    o: Heads<T>,
    states: Array4<T>,
) -> Result<(Heads<T>, Array4<T>), EngineError> {
    let Some(names) = context.numerics.dialect.gated_delta_net else { return Ok((o, states)) };
    let name = names.of(o.dim().1);
    let (n_o, of_o, of_states) = (o.len(), o.dim(), states.dim());
    let packed = context.emitter.emit(name, Some(il), packed(&o, &states))?;
    let mut o: Vec<T> = packed.into_iter().collect();
    let states = o.split_off(n_o);
    let apart = |values, shape| Array4::from_shape_vec(shape, values).expect("as many as were packed");
    Ok((apart(o, of_o), apart(states, of_states)))
}

fn packed<T: Real>(o: &Heads<T>, states: &Array4<T>) -> Array2<T> {
    let (.., n_v, d) = o.dim();
    let values: Vec<T> = o.iter().chain(states).copied().collect();
    let shape = (values.len() / (n_v * d), n_v * d);
    Array2::from_shape_vec(shape, values).expect("a state has n_v d rows of d elements")
}

#[cfg(test)]
mod tests {
    use ndarray::arr2;

    use super::*;

    #[test]
    fn outputs_stand_in_front_of_states() {
        // Two sequences of one token, n_v = 1, d = 2.
        let o = Array4::from_shape_vec((2, 1, 1, 2), vec![1.0, 2.0, 3.0, 4.0]).unwrap();
        let states = Array4::from_shape_fn((2, 1, 2, 2), |(sequence, _, v, k)| {
            10.0 * (1 + sequence) as f64 + (2 * v + k) as f64
        });
        let expected =
            arr2(&[[1.0, 2.0], [3.0, 4.0], [10.0, 11.0], [12.0, 13.0], [20.0, 21.0], [22.0, 23.0]]);
        assert_eq!(packed(&o, &states), expected);
    }
}
