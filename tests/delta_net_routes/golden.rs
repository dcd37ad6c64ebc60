//! Every tensor that llama.cpp names in its graphs of plain operators, against ours (`scripts/delta-net-golden.py`).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fs;
use std::path::Path;

use lockstep::ops::{DeltaInputs, DeltaSteps, Number, delta_net_autoregressive, delta_net_chunked};
use ndarray::{Array, Array4, ArrayView4};
use serde::Deserialize;

use super::case::{Case, Solving, allowed, flat};
use super::tracked::Tracked;

/// A planted error, as a part of the largest element that the golden holds of a tensor. Worst cases add up from chunk to chunk; a
/// check of a whole dump judges each of these tensors alone, and sees far less.
const PLANTED: f64 = 0.02;

#[derive(Deserialize, Clone)]
struct Tensor {
    name: String,
    ne: [usize; 4],
    /// Every so many elements one is held.
    stride: usize,
    values: String,
}

#[derive(Deserialize)]
struct Golden {
    route: String,
    n_tokens: usize,
    /// q, k, v, log decay, beta, state.
    inputs: [String; 6],
    tensors: Vec<Tensor>,
}

fn floats(hex: &str) -> Vec<f32> {
    let bytes: Vec<u8> =
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

fn golden(route: &str) -> (Case, Vec<Tensor>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/delta_net/unfused.json");
    let goldens: Vec<Golden> = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let golden = goldens.into_iter().find(|golden| golden.route == route).unwrap();
    let [q, k, v, g, b, s] = golden.inputs.each_ref().map(|hex| floats(hex));
    let (n_v, d) = (
        q.len() * q.len() / (s.len() * golden.n_tokens * golden.n_tokens),
        s.len() * golden.n_tokens / q.len(),
    );
    let heads = |x| Array::from_shape_vec((1, golden.n_tokens, n_v, d), x).unwrap();
    let gates = |x| Array::from_shape_vec((1, golden.n_tokens, n_v), x).unwrap();
    let case = Case {
        q: heads(q),
        k: heads(k),
        v: heads(v),
        log_decay: gates(g),
        beta: gates(b),
        state: Array::from_shape_vec((1, n_v, d, d), s).unwrap(),
    };
    assert!(case.state.iter().any(|&s| s != 0.0));
    (case, golden.tensors)
}

/// The tensors of a route in the order in which they came.
struct Seen<T, F> {
    tensors: Vec<(&'static str, Array4<T>)>,
    bound: F,
}

impl<T: Number, F: FnMut(&str, Array4<T>) -> Array4<T>> DeltaSteps<T> for Seen<T, F> {
    type Error = Infallible;

    fn step(&mut self, name: &'static str, values: Array4<T>) -> Result<Array4<T>, Infallible> {
        let values = (self.bound)(name, values);
        self.tensors.push((name, values.clone()));
        Ok(values)
    }

    fn view(&mut self, name: &'static str, values: ArrayView4<'_, T>) -> Result<(), Infallible> {
        self.tensors.push((name, values.to_owned()));
        Ok(())
    }
}

fn chunked<T: Number>(
    case: &Case,
    bound: impl FnMut(&str, Array4<T>) -> Array4<T>,
) -> Vec<(&'static str, Array4<T>)> {
    let mut seen = Seen { tensors: Vec::new(), bound };
    let route =
        |inputs: &DeltaInputs<'_, T>, state, scale| delta_net_chunked(inputs, state, scale, &mut seen);
    let (o, state) = case.run(route).unwrap();
    let mut tensors = seen.tensors;
    // These two are named by whoever calls.
    let at = tensors.iter().position(|(name, _)| *name == "q_in").unwrap();
    tensors.insert(at, ("new_state", state));
    tensors.push(("attn_output", o));
    tensors
}

/// The elements that the golden holds of a tensor.
fn held<T: Copy>(tensor: &Tensor, values: &Array4<T>) -> Vec<T> {
    values.iter().copied().step_by(tensor.stride).collect()
}

/// Pairs each tensor of the golden with the route's: all of them, by name, in order, with its extents.
fn paired<T: Number>(golden: Vec<Tensor>, own: Vec<(&'static str, Array4<T>)>) -> Vec<(Tensor, Array4<T>)> {
    let mut own: VecDeque<_> = own.into();
    let mut pairs = Vec::new();
    for tensor in golden {
        let (name, values) = own.pop_front().unwrap();
        assert_eq!(name, tensor.name, "after {} tensors", pairs.len());
        let mut ne = [1; 4];
        ne.iter_mut().zip(values.shape().iter().rev()).for_each(|(ne, &n)| *ne = n);
        assert_eq!(ne, tensor.ne, "{name}");
        pairs.push((tensor, values));
    }
    assert!(own.is_empty());
    pairs
}

/// `kq` comes one tensor earlier here than in llama.cpp.
fn with_kq_first(mut golden: Vec<Tensor>) -> Vec<Tensor> {
    let at = golden.iter().position(|tensor| tensor.name == "kq").unwrap();
    assert_eq!(golden[at - 1].name, "attn_inter");
    golden.swap(at - 1, at);
    golden
}

#[test]
fn every_tensor_of_the_chunked_graph_is_llama_cpps() {
    let (case, golden) = golden("chunked");
    let golden = with_kq_first(golden);
    let mut solving = Solving::<24>::default();
    let bounded = paired(golden.clone(), chunked(&case, |name, values| solving.bound(name, values)));
    let narrow = paired(golden, chunked::<f32>(&case, |_, values| values));
    let mut blind = Vec::new();
    for ((tensor, bounded), (_, narrow)) in bounded.iter().zip(&narrow) {
        let reference = floats(&tensor.values);
        let (bounded, narrow) = (held(tensor, bounded), held(tensor, narrow));
        assert!(reference.len() == bounded.len() && reference.iter().any(|&x| x != 0.0), "{}", tensor.name);
        for ((i, &x), (bounded, narrow)) in reference.iter().enumerate().zip(bounded.iter().zip(narrow)) {
            for (side, x) in [("llama.cpp", x), ("f32", narrow)] {
                let error = (f64::from(x) - bounded.value).abs();
                assert!(
                    error <= bounded.error(),
                    "{} [{i}], {side}: {x:e}, exact {:e}: off by {error:.1e}, bound {:.1e}",
                    tensor.name,
                    bounded.value,
                    bounded.error()
                );
            }
        }
        let largest = bounded.iter().max_by(|x, y| x.value.abs().total_cmp(&y.value.abs())).unwrap();
        if PLANTED * largest.value.abs() <= largest.error() {
            blind.push(format!("{}: {:e}, bound {:.1e}", tensor.name, largest.value, largest.error()));
        }
    }
    assert!(blind.is_empty(), "an error of {PLANTED} would not be seen in\n{}", blind.join("\n"));
}

#[test]
fn one_token_is_llama_cpps() {
    let (case, golden) = golden("autoregressive");
    let exact = case.exact();
    let limits = allowed::<24>(&exact);
    let mut seen = Seen { tensors: Vec::new(), bound: |_: &str, values| values };
    let route = |inputs: &DeltaInputs<'_, f32>, state, scale| {
        delta_net_autoregressive(inputs, state, scale, &mut seen)
    };
    let (o, state) = case.run(route).unwrap();
    seen.tensors.push(("attn_output", o.clone()));
    let pairs = paired(golden, seen.tensors);
    let of = |name: &str| floats(&pairs.iter().find(|(tensor, _)| tensor.name == name).unwrap().0.values);
    let reference = [of("attn_output"), of("new_state")].concat();
    let own = flat(&(o, state));
    assert!(reference.len() == exact.values.len() && own.len() == exact.values.len());
    for (i, (&value, limit)) in exact.values.iter().zip(limits).enumerate() {
        for x in [f64::from(reference[i]), own[i]] {
            assert!((x - value).abs() <= limit, "[{i}]: {x:e}, exact {value:e}, limit {limit:.1e}");
        }
    }
    // What is only moved or scaled once.
    for (name, u) in [("k_in", 0.0), ("v_in", 0.0), ("q_in", 2f64.powi(-23))] {
        let (tensor, values) = pairs.iter().find(|(tensor, _)| tensor.name == name).unwrap();
        for (x, own) in floats(&tensor.values).into_iter().zip(held(tensor, values)) {
            assert!(f64::from(x - own).abs() <= u * f64::from(x.abs()), "{name}: {x:e} {own:e}");
        }
    }
}

#[test]
fn tracked_numbers_compute_what_f64_does() {
    let (case, _) = golden("chunked");
    let tracked = case.bounded::<53>();
    assert_eq!(flat(&tracked), flat(&case.chunked::<f64>()));
    assert!(tracked.0.iter().all(|x: &Tracked<53>| x.error() > 0.0));
}
