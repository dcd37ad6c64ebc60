//! In chunks, token by token and the oracle, across the edges of chunks.

use lockstep::ops::{
    DecayOrder, DeltaGates, DeltaInputs, DeltaRule, DeltaSteps, NoSteps, Number, delta_net_autoregressive,
    delta_net_chunked, gated_delta_net,
};
use ndarray::{Array, Array3, Array4, ArrayView4, Axis};

use super::case::{Case, Outcome, allowed, cast, flat};
use super::tracked::Tracked;

/// Around the edges of chunks.
const LENGTHS: [usize; 9] = [1, 2, 3, 63, 64, 65, 127, 128, 130];

/// Ranges of log decay and beta.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Gates {
    /// Nearly no decay, beta anywhere.
    Keeping,
    /// Decays as a model has them.
    Usual,
    /// Down to exp(-20).
    Forgetting,
    /// Each token keeps or forgets nearly everything, and writes all or nothing.
    Edges,
}

const GATES: [Gates; 4] = [Gates::Keeping, Gates::Usual, Gates::Forgetting, Gates::Edges];

/// Xorshift, uniform in [0, 1).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1u64 << 24) as f32
    }
}

/// Two sequences, three heads of 16, on a state.
fn case(n_tokens: usize, gates: Gates) -> Case {
    let (n_seqs, n_v, d) = (2, 3, 16);
    let mut rng = Rng(0x9e37_79b9_7f4a_7c15 ^ (n_tokens as u64) << 8 ^ gates as u64);
    let mut random = |shape: [usize; 4]| Array4::from_shape_simple_fn(shape, || 2.0 * rng.next() - 1.0);
    let shape = [n_seqs, n_tokens, n_v, d];
    let (mut q, mut k) = (random(shape), random(shape));
    let (v, state) = (random(shape), random([n_seqs, n_v, d, d]));
    lockstep::ops::l2_norm(&mut q, 1e-6);
    lockstep::ops::l2_norm(&mut k, 1e-6);
    let (log_decay, beta) = match gates {
        Gates::Keeping => (-1e-4, 1.0),
        Gates::Usual => (-0.5, 1.0),
        Gates::Forgetting | Gates::Edges => (-20.0, 1.0),
    };
    let mut gate = |range: f32| {
        Array3::from_shape_simple_fn((n_seqs, n_tokens, n_v), || match (gates, rng.next()) {
            (Gates::Edges, x) if x < 0.8 => 1e-6 * x * range,
            (Gates::Edges, _) => range,
            (_, x) => x * range,
        })
    };
    Case { q, k, v, log_decay: gate(log_decay), beta: gate(beta), state }
}

/// Each sequence token by token.
fn token_by_token<T: Number>(case: &Case) -> Outcome<T> {
    let route = |inputs: &DeltaInputs<'_, T>, mut state: Array4<T>, scale| {
        let mut o = Array::from_elem(inputs.v.raw_dim(), T::ZERO);
        for (s, (mut o, mut state)) in o.outer_iter_mut().zip(state.outer_iter_mut()).enumerate() {
            let [q, k, v] = [inputs.q, inputs.k, inputs.v].map(|x| x.index_axis_move(Axis(0), s));
            let [log_decay, beta] = [inputs.log_decay, inputs.beta].map(|x| x.index_axis_move(Axis(0), s));
            let rules = (DeltaRule::Delta, DecayOrder::BeforePrediction);
            let gates = DeltaGates { log_decay, beta };
            o.assign(&gated_delta_net(q, k, v, gates, state.view_mut(), |h| h, scale, rules));
        }
        Ok::<_, std::convert::Infallible>((o, state))
    };
    case.run(route).unwrap()
}

/// Asserts that no element is farther from another than its limit, and that all are numbers.
fn assert_within(what: &str, values: &[f64], exact: &[f64], limits: impl Iterator<Item = f64>) {
    assert!(values.len() == exact.len() && !values.is_empty(), "{what}");
    for (i, ((&x, &exact), limit)) in values.iter().zip(exact).zip(limits).enumerate() {
        let error = (x - exact).abs();
        assert!(
            error <= limit,
            "{what} [{i}]: {x:e}, exact {exact:e}: off by {error:.1e}, limit {limit:.1e}"
        );
    }
}

/// The bound of each value of the chunked route.
fn errors<const BITS: i32>(case: &Case) -> Vec<f64> {
    let (o, state) = case.bounded::<BITS>();
    o.iter().chain(&state).map(|x: &Tracked<BITS>| x.error()).collect()
}

#[test]
fn all_routes_are_the_oracle_to_rounding() {
    for (n_tokens, gates) in LENGTHS.into_iter().flat_map(|n| GATES.map(|gates| (n, gates))) {
        let case = case(n_tokens, gates);
        let exact = case.exact();
        let what = |route: &str| format!("{route}, {n_tokens} tokens, {gates:?}");
        // The oracle is in f64 itself.
        let own = allowed::<53>(&exact);
        let wide = token_by_token::<f64>(&case);
        assert_within(&what("tokens f64"), &flat(&wide), &exact.values, own.iter().map(|own| 2.0 * own));
        let narrow = token_by_token::<f32>(&case);
        let limits = allowed::<24>(&exact);
        assert_within(&what("tokens f32"), &flat(&narrow), &exact.values, limits.into_iter());
        let chunked = case.chunked::<f64>();
        let limits = errors::<53>(&case).into_iter().zip(&own).map(|(error, own)| error + own);
        assert_within(&what("chunks f64"), &flat(&chunked), &exact.values, limits);
        let narrow = case.chunked::<f32>();
        assert_within(&what("chunks f32"), &flat(&narrow), &flat(&chunked), errors::<24>(&case).into_iter());
        if n_tokens == 1 {
            let one = case.run(|inputs: &DeltaInputs<'_, f64>, state, scale| {
                delta_net_autoregressive(inputs, state, scale, &mut NoSteps)
            });
            assert_within(
                &what("one f64"),
                &flat(&one.unwrap()),
                &exact.values,
                own.iter().map(|own| 2.0 * own),
            );
            let one = case.run(|inputs: &DeltaInputs<'_, f32>, state, scale| {
                delta_net_autoregressive(inputs, state, scale, &mut NoSteps)
            });
            let limits = allowed::<24>(&exact);
            assert_within(&what("one f32"), &flat(&one.unwrap()), &exact.values, limits.into_iter());
        }
    }
}

/// A bound that is larger than what it bounds says nothing: of the largest value not even half is granted, in f32, with the worst
/// cases of 130 tokens added up. What has decayed by exp(-20) and more is left out: cumulative sums
/// lose its digits, in llama.cpp as here.
#[test]
fn bounds_are_small() {
    for (n_tokens, gates) in LENGTHS.into_iter().flat_map(|n| [Gates::Keeping, Gates::Usual].map(|g| (n, g)))
    {
        let case = case(n_tokens, gates);
        let largest = case.exact().values.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
        for (bits, errors, limit) in [(53, errors::<53>(&case), 1e-9), (24, errors::<24>(&case), 0.5)] {
            let worst = errors.into_iter().fold(0.0, f64::max);
            assert!(
                worst <= limit * largest,
                "{n_tokens} tokens, {gates:?}, {bits} bits: {worst:.1e} of {largest}"
            );
        }
    }
}

/// Changes one tensor of the graph on its way.
struct Planted<F> {
    change: F,
    seen: usize,
}

impl<F: FnMut(&str, usize, &mut Array4<f64>)> DeltaSteps<f64> for Planted<F> {
    type Error = std::convert::Infallible;

    fn step(&mut self, name: &'static str, mut values: Array4<f64>) -> Result<Array4<f64>, Self::Error> {
        self.seen += 1;
        (self.change)(name, self.seen, &mut values);
        Ok(values)
    }

    fn view(&mut self, _: &'static str, _: ArrayView4<'_, f64>) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// The largest error of the chunked route with a fault, in units of its bound in f32 arithmetic.
fn shares_with(n_tokens: usize, change: impl FnMut(&str, usize, &mut Array4<f64>)) -> f64 {
    let case = case(n_tokens, Gates::Usual);
    let mut steps = Planted { change, seen: 0 };
    let faulty = case.run(|inputs: &DeltaInputs<'_, f64>, state, scale| {
        delta_net_chunked(inputs, state, scale, &mut steps)
    });
    let exact = case.exact().values;
    let shares = flat(&faulty.unwrap()).into_iter().zip(exact).zip(errors::<24>(&case));
    shares.map(|((x, exact), bound)| (x - exact).abs() / bound).fold(0.0, f64::max)
}

#[test]
fn a_fault_at_the_edge_of_a_chunk_is_beyond_the_bound() {
    let none = |_: &str, _: usize, _: &mut Array4<f64>| {};
    assert!(shares_with(130, none) <= 1.0);
    // The second chunk starts from the state in front of the first.
    let mut first = None;
    let stale = |name: &str, _: usize, values: &mut Array4<f64>| {
        if name == "dnet_add_ch_state" && first.is_none() {
            first = Some(());
            *values = cast(&case(130, Gates::Usual).state).into_shape_with_order(values.raw_dim()).unwrap();
        }
    };
    let share = shares_with(130, stale);
    assert!(share > 10.0, "{share}");
    // Padding of the last chunk counts: it decays as its last token does.
    let padding = |name: &str, _: usize, values: &mut Array4<f64>| {
        if name == "g_cs" {
            let (decay, last) = (values[[0, 0, 0, 0]], values.dim().3 - 1);
            let from = values.dim().1 - 1;
            values.slice_mut(ndarray::s![.., from, .., last]).mapv_inplace(|g| g + 61.0 * decay);
        }
    };
    let share = shares_with(67, padding);
    assert!(share > 10.0, "{share}");
    // A token sees the one behind it.
    let ahead = |name: &str, _: usize, values: &mut Array4<f64>| {
        if name == "kq" {
            values.slice_mut(ndarray::s![.., .., 0, 1]).mapv_inplace(|x| x + 0.1);
        }
    };
    assert!(shares_with(2, ahead) > 10.0);
}
