//! What holds for the engine whatever the model computes: folded as unfolded, batched as token by token, refused inputs
//! and failing taps without a trace.

mod common;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use common::{Edit, Keep, Tensor, assert_same, relative_l2, run, synthetic, ubatch};
use lockstep::engine::{Conventions, Engine, EngineError, NullTap, Tap, TapError, Ubatch, cpu::CpuEngine};
use lockstep::model::Model;
use lockstep::ops::Real;
use lockstep::tensor::{GgmlType, TensorId, Values};

const N_CTX: usize = 512;
const TOKENS: [u32; 7] = [7, 300, 12, 45, 501, 300, 222];

fn micro() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| Edit::of(&common::micro().path).open().unwrap())
}

/// Tokens without a pattern.
fn tokens(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| (i * i * 31 + i * 7 + 5) % 512).collect()
}

fn engine<T: Real>() -> CpuEngine<'static, T> {
    CpuEngine::new(micro(), Conventions::default(), N_CTX).unwrap()
}

/// The names and shapes of two runs are the same, one by one.
#[track_caller]
fn same_tensors(one: &[Tensor], other: &[Tensor]) {
    let of = |tensors: &[Tensor]| tensors.iter().map(|t| (t.id.clone(), t.ne)).collect::<Vec<_>>();
    assert_eq!(of(one), of(other));
}

mod weights {
    use super::*;

    #[test]
    fn a_folded_model_computes_what_its_unfolded_twin_does() {
        let twin = synthetic("micro-bonsai", 1, GgmlType::F32);
        let twin = Model::open(&twin.path).unwrap();
        assert!(twin.fold().is_none() && micro().fold().is_some());
        let splits = [4, 1, 2];
        let (folded, unfolded) = (run::<f64>(micro(), &TOKENS, &splits), run::<f64>(&twin, &TOKENS, &splits));
        same_tensors(&unfolded, &folded);
        assert!(unfolded.len() > 3 * 4 * 20, "{} tensors", unfolded.len());
        // The twin's weights are rounded to f32 once: 2^-24 each, and averaged by every sum.
        for (reference, actual) in unfolded.iter().zip(&folded) {
            let error = relative_l2(&reference.values, &actual.values);
            assert!(error <= 1e-6, "{}: {error:.1e}", reference.id);
        }
    }

    #[test]
    fn both_ternary_types_give_the_same_bits() {
        let other = synthetic("micro-bonsai", 1, GgmlType::PTQ1_0);
        let other = Model::open(&other.path).unwrap();
        assert_eq!(other.gguf().tensor("output.weight").unwrap().info.ty, GgmlType::PTQ1_0);
        let splits = [4, 1, 2];
        assert_same(&run::<f32>(micro(), &TOKENS, &splits), &run::<f32>(&other, &TOKENS, &splits));
    }

    #[test]
    fn f32_and_f64_agree_at_the_logits() {
        let (f32s, f64s) = (run::<f32>(micro(), &TOKENS, &[7]), run::<f64>(micro(), &TOKENS, &[7]));
        same_tensors(&f64s, &f32s);
        let (exact, actual) = (f64s.last().unwrap(), f32s.last().unwrap());
        assert_eq!(exact.id.name, "result_output");
        let error = relative_l2(&exact.values, &actual.values);
        assert!(error > 0.0 && error <= 1e-4, "{error:.1e}");
    }
}

mod batching {
    use super::*;

    /// How a tensor of a run depends on the ubatch.
    enum Kind {
        /// One slice per token, along this dimension (of `ne`).
        PerToken(usize),
        /// Scores: one row per head and token, of which token t sees the first t + 1 cells.
        Scores,
        /// A state, comparable where all tokens have been run.
        State,
        /// Made for one ubatch: a window over the state and the tokens of the ubatch.
        PerUbatch,
    }

    fn kind(id: &TensorId, ne: [u64; 4]) -> Kind {
        match id.kind() {
            "kq" | "kq_soft_max" => Kind::Scores,
            "kqv" => Kind::PerToken(1),
            "qkv_mixed_transposed" => Kind::PerToken(0),
            "conv_state_last" | "new_state" => Kind::State,
            "conv_states" | "conv_states_reshaped" | "conv_input" | "state_predelta" => Kind::PerUbatch,
            // [.., n_tokens], the outermost extent that is not 1, or one token
            _ => Kind::PerToken(ne.iter().rposition(|&n| n > 1).unwrap_or(0)),
        }
    }

    /// What a run computed, by tensor and token, whatever its ubatches were.
    #[derive(Default)]
    struct Run {
        rows: BTreeMap<(String, u32, usize), Vec<u64>>,
        states: BTreeMap<(String, u32), Vec<u64>>,
    }

    fn bits(values: impl Iterator<Item = f64>) -> Vec<u64> {
        values.map(f64::to_bits).collect()
    }

    /// The slices along a dimension.
    fn slices(tensor: &Tensor, dimension: usize) -> Vec<Vec<u64>> {
        let stride = tensor.ne[..dimension].iter().product::<u64>() as usize;
        let mut slices = vec![Vec::new(); tensor.ne[dimension] as usize];
        for (i, run) in tensor.values.chunks_exact(stride).enumerate() {
            let n = slices.len();
            slices[i % n].extend(run.iter().map(|v| v.to_bits()));
        }
        slices
    }

    fn by_token(tensors: Vec<Tensor>, splits: &[usize]) -> Run {
        let mut run = Run::default();
        for tensor in tensors {
            let step = tensor.id.step as usize;
            let (start, n) = (splits[..step].iter().sum::<usize>(), splits[step]);
            let (name, occurrence) = (tensor.id.name.clone(), tensor.id.occurrence);
            match kind(&tensor.id, tensor.ne) {
                Kind::PerToken(dimension) => {
                    // of one token the outermost extent above 1 is another one: the whole tensor is its slice
                    let rows = match n {
                        1 => vec![bits(tensor.values.iter().copied())],
                        _ => slices(&tensor, dimension),
                    };
                    assert_eq!(rows.len(), n, "{}", tensor.id);
                    for (t, row) in rows.into_iter().enumerate() {
                        run.rows.insert((name.clone(), occurrence, start + t), row);
                    }
                }
                Kind::Scores => {
                    let n_kv = tensor.ne[0] as usize;
                    for t in 0..n {
                        let heads = tensor.values.chunks_exact(n_kv).skip(t).step_by(n);
                        let visible = heads.flat_map(|row| row[..=start + t].iter().copied());
                        run.rows.insert((name.clone(), occurrence, start + t), bits(visible));
                    }
                }
                Kind::State => {
                    run.states.insert((name, occurrence), bits(tensor.values.into_iter()));
                }
                Kind::PerUbatch => {}
            }
        }
        run
    }

    #[track_caller]
    fn same(whole: &Run, other: &Run, splits: &[usize]) {
        assert_eq!(whole.rows.len(), other.rows.len(), "{splits:?}");
        for (key, row) in &whole.rows {
            assert!(Some(row) == other.rows.get(key), "{key:?} differs for {splits:?}");
        }
        assert_eq!(whole.states.len(), 3 * 2, "two states of three layers");
        for (key, state) in &whole.states {
            assert!(Some(state) == other.states.get(key), "{key:?} differs for {splits:?}");
        }
    }

    /// Every value is equal bit by bit: the engine computes each token by itself, with sums whose order does not depend
    /// on the other tokens of the ubatch. Scores are compared where the token looks; beyond, they are what happens to
    /// lie in the cells, and masked.
    fn any_split_gives_the_same_bits<T: Real>(n: usize, splits: &[&[usize]]) {
        let tokens = tokens(n);
        let whole = by_token(run::<T>(micro(), &tokens, &[n]), &[n]);
        assert!(whole.rows.len() >= n * 100, "{} rows", whole.rows.len());
        for splits in splits {
            same(&whole, &by_token(run::<T>(micro(), &tokens, splits), splits), splits);
        }
    }

    #[test]
    fn short_prompts() {
        any_split_gives_the_same_bits::<f32>(1, &[&[1]]);
        any_split_gives_the_same_bits::<f32>(2, &[&[1, 1]]);
        any_split_gives_the_same_bits::<f32>(3, &[&[1, 1, 1], &[1, 2], &[2, 1]]);
        any_split_gives_the_same_bits::<f32>(5, &[&[1; 5], &[4, 1], &[1, 4], &[2, 3], &[3, 2], &[1, 3, 1]]);
        any_split_gives_the_same_bits::<f64>(5, &[&[1; 5], &[3, 2]]);
    }

    #[test]
    fn around_a_chunk_of_64() {
        any_split_gives_the_same_bits::<f32>(64, &[&[1; 64], &[63, 1], &[1, 63], &[32, 32], &[3, 60, 1]]);
        any_split_gives_the_same_bits::<f32>(65, &[&[1; 65], &[64, 1], &[1, 64], &[62, 3]]);
    }

    #[test]
    fn beyond_the_first_256_cells() {
        any_split_gives_the_same_bits::<f32>(259, &[&[256, 3], &[255, 1, 1, 1, 1], &[100, 159]]);
    }

    #[test]
    fn logits_are_returned_for_the_tokens_that_want_them() {
        let all = engine::<f32>().step(&ubatch(&TOKENS, 0..7), &mut NullTap).unwrap();
        assert_eq!(all.dim(), (7, 512));
        for wanted in [vec![6], vec![0, 3], vec![]] {
            let mut some = ubatch(&TOKENS, 0..7);
            some.outputs = (0..7).map(|t| wanted.contains(&t)).collect();
            let logits = engine::<f32>().step(&some, &mut NullTap).unwrap();
            assert_eq!(logits, all.select(ndarray::Axis(0), &wanted));
        }
    }

    #[test]
    fn a_reset_engine_is_a_new_one() {
        let mut engine = engine::<f32>();
        let mut runs = Vec::new();
        for other in [[1u32, 2, 3], [4, 5, 6]] {
            let mut keep = Keep::default();
            engine.step(&ubatch(&TOKENS, 0..4), &mut keep).unwrap();
            engine.step(&ubatch(&TOKENS, 4..7), &mut keep).unwrap();
            runs.push(keep.tensors);
            engine.reset();
            engine.step(&ubatch(&other, 0..3), &mut NullTap).unwrap();
            engine.reset();
        }
        let new = run::<f32>(micro(), &TOKENS, &[4, 3]);
        runs.iter().for_each(|run| assert_same(&new, run));
    }
}

mod refusals {
    use super::*;

    fn first() -> Ubatch {
        ubatch(&TOKENS, 0..4)
    }

    fn second() -> Ubatch {
        ubatch(&TOKENS, 4..7)
    }

    /// Runs four tokens, a ubatch that must be refused, and three more tokens: as if it had not been there.
    #[track_caller]
    fn leaves_no_trace(wrong: &Ubatch, n_ctx: usize, expected: &str) {
        let new = || CpuEngine::<f32>::new(micro(), Conventions::default(), n_ctx).unwrap();
        let (mut engine, mut undisturbed, mut reference) = (new(), new(), Keep::default());
        undisturbed.step(&first(), &mut reference).unwrap();
        undisturbed.step(&second(), &mut reference).unwrap();
        let mut keep = Keep::default();
        let refusal = |error: EngineError| format!("{error:?}").split([' ', '{']).next().unwrap().to_owned();
        engine.step(&first(), &mut keep).unwrap();
        let before = keep.tensors.len();
        assert_eq!(engine.step(wrong, &mut keep).map_err(refusal).err().as_deref(), Some(expected));
        assert_eq!(keep.tensors.len(), before, "a refused ubatch emitted tensors");
        engine.step(&second(), &mut keep).unwrap();
        assert_same(&reference.tensors, &keep.tensors);
    }

    #[test]
    fn a_token_outside_the_vocabulary() {
        for token in [512, u32::MAX] {
            for at in 0..3 {
                let mut wrong = second();
                wrong.tokens[at] = token;
                leaves_no_trace(&wrong, N_CTX, "Token");
            }
        }
    }

    #[test]
    fn a_position_that_does_not_follow() {
        for positions in [[5, 6, 7], [3, 4, 5], [0, 1, 2], [4, 6, 7], [4, 4, 5], [4, 5, -1], [i64::MAX; 3]] {
            leaves_no_trace(&Ubatch { positions: positions.to_vec(), ..second() }, N_CTX, "Position");
        }
    }

    #[test]
    fn a_ubatch_of_unequal_lists_or_none() {
        let empty = Ubatch { tokens: vec![], positions: vec![], sequences: vec![], outputs: vec![] };
        leaves_no_trace(&empty, N_CTX, "UbatchSize");
        leaves_no_trace(&Ubatch { tokens: vec![], ..second() }, N_CTX, "UbatchSize");
        leaves_no_trace(&Ubatch { positions: vec![4, 5], ..second() }, N_CTX, "UbatchSize");
        leaves_no_trace(&Ubatch { sequences: vec![0; 2], ..second() }, N_CTX, "UbatchSize");
        leaves_no_trace(&Ubatch { outputs: vec![true; 4], ..second() }, N_CTX, "UbatchSize");
    }

    #[test]
    fn sequences_of_unequal_length_or_torn_apart() {
        for sequences in [[0, 0, 1], [1, 0, 0], [0, 1, 0]] {
            leaves_no_trace(&Ubatch { sequences: sequences.to_vec(), ..second() }, N_CTX, "Sequences");
        }
    }

    #[test]
    fn more_tokens_than_the_context_holds() {
        let four: Vec<u32> = (0..8).collect();
        leaves_no_trace(&ubatch(&four, 4..8), 7, "ContextFull");
    }

    #[test]
    fn the_messages_say_what_was_expected() {
        let mut engine = engine::<f32>();
        engine.step(&first(), &mut NullTap).unwrap();
        let mut message = |wrong: &Ubatch| engine.step(wrong, &mut NullTap).unwrap_err().to_string();
        assert_eq!(message(&ubatch(&[512], 0..1)), "token 512 at position 0 is not in the vocabulary of 512");
        assert_eq!(
            message(&ubatch(&[7], 0..1)),
            "position 0 follows 4 tokens of sequence 0, expected 4: reset the engine to start a new sequence"
        );
    }
}

mod taps {
    use super::*;

    /// Keeps everything, and answers at one tensor.
    struct Answer<F> {
        keep: Keep,
        at: &'static str,
        answer: F,
    }

    impl<F: FnMut(&[f64]) -> Result<Vec<f32>, TapError>> Tap for Answer<F> {
        fn tensor(
            &mut self,
            id: &TensorId,
            ne: [u64; 4],
            values: Values<'_>,
        ) -> Result<Option<Vec<f32>>, TapError> {
            self.keep.tensor(id, ne, values)?;
            if id.to_string() != self.at {
                return Ok(None);
            }
            (self.answer)(&self.keep.tensors.last().unwrap().values).map(Some)
        }
    }

    fn answering<F>(at: &'static str, answer: F) -> Answer<F> {
        Answer { keep: Keep::default(), at, answer }
    }

    fn rounded(values: &[f64]) -> Vec<f32> {
        values.iter().map(|&v| v as f32).collect()
    }

    fn negated(values: &[f64]) -> Result<Vec<f32>, TapError> {
        Ok(values.iter().map(|&v| -v as f32).collect())
    }

    #[test]
    fn a_replacement_changes_what_follows_and_nothing_before() {
        let plain = run::<f32>(micro(), &TOKENS, &[7]);
        for at in
            ["model.input_embed", "conv_input-1", "new_state-0", "kq-3", "Vcur-3", "norm", "result_norm"]
        {
            let at_id: &'static str = Box::leak(format!("{at} (step 0)").into_boxed_str());
            let mut tap = answering(at_id, negated);
            engine::<f32>().step(&ubatch(&TOKENS, 0..7), &mut tap).unwrap();
            let replaced = tap.keep.tensors;
            same_tensors(&plain, &replaced);
            let index = plain.iter().position(|t| t.id.to_string() == at_id).unwrap();
            assert_same(&plain[..=index], &replaced[..=index]);
            if at == "new_state-0" {
                continue; // read by the next step only
            }
            assert!(plain.last() != replaced.last(), "{at}: the logits did not change");
        }
    }

    #[test]
    fn the_returned_logits_are_the_replaced_ones() {
        let plain = engine::<f32>().step(&ubatch(&TOKENS, 0..7), &mut NullTap).unwrap();
        let mut tap = answering("result_output (step 0)", negated);
        assert_eq!(engine::<f32>().step(&ubatch(&TOKENS, 0..7), &mut tap).unwrap(), -plain);
    }

    #[test]
    fn a_replaced_state_is_where_the_next_step_begins() {
        let mut engine = engine::<f32>();
        let mut tap = answering("new_state-0 (step 0)", negated);
        engine.step(&ubatch(&TOKENS, 0..4), &mut tap).unwrap();
        engine.step(&ubatch(&TOKENS, 4..7), &mut tap).unwrap();
        let find = |id: &str| &tap.keep.tensors.iter().find(|t| t.id.to_string() == id).unwrap().values;
        let (after, before) = (find("new_state-0 (step 0)"), find("state_predelta-0 (step 1)"));
        assert!(after.iter().any(|&v| v != 0.0));
        assert!(after.iter().zip(before).all(|(x, y)| -x == *y));
    }

    #[test]
    fn handing_back_the_same_values_changes_nothing() {
        /// Every tensor is replaced by itself.
        struct Echo(Keep);
        impl Tap for Echo {
            fn tensor(
                &mut self,
                id: &TensorId,
                ne: [u64; 4],
                values: Values<'_>,
            ) -> Result<Option<Vec<f32>>, TapError> {
                self.0.tensor(id, ne, values)?;
                Ok(Some(rounded(&self.0.tensors.last().unwrap().values)))
            }
        }
        let (mut engine, mut echo) = (engine::<f32>(), Echo(Keep::default()));
        engine.step(&ubatch(&TOKENS, 0..4), &mut echo).unwrap();
        engine.step(&ubatch(&TOKENS, 4..7), &mut echo).unwrap();
        assert_same(&run::<f32>(micro(), &TOKENS, &[4, 3]), &echo.0.tensors);
    }

    #[test]
    fn reseeding_with_another_run_gives_that_run() {
        // every tensor of an f64 run is replaced by the f32 run's: what is left is one operator's rounding
        let reference = run::<f32>(micro(), &TOKENS, &[7]);
        struct Reseed<'a> {
            reference: &'a [Tensor],
            next: usize,
            worst: f64,
        }
        impl Tap for Reseed<'_> {
            fn tensor(
                &mut self,
                id: &TensorId,
                _: [u64; 4],
                values: Values<'_>,
            ) -> Result<Option<Vec<f32>>, TapError> {
                let reference = &self.reference[self.next];
                assert_eq!(reference.id, *id);
                self.next += 1;
                let Values::F64(actual) = values else { panic!("f64 engine") };
                self.worst = self.worst.max(relative_l2(&reference.values, actual));
                Ok(Some(rounded(&reference.values)))
            }
        }
        let mut tap = Reseed { reference: &reference, next: 0, worst: 0.0 };
        engine::<f64>().step(&ubatch(&TOKENS, 0..7), &mut tap).unwrap();
        assert_eq!(tap.next, reference.len());
        assert!(tap.worst > 0.0 && tap.worst <= 1e-6, "{:.1e}", tap.worst);
    }

    /// An engine in which a step failed: it refuses to go on, and is as new once it is reset.
    #[track_caller]
    fn refuses_until_reset<F>(at: &'static str, answer: F, check: impl Fn(&EngineError) -> bool)
    where
        F: FnMut(&[f64]) -> Result<Vec<f32>, TapError>,
    {
        let mut engine = engine::<f32>();
        engine.step(&ubatch(&TOKENS, 0..4), &mut NullTap).unwrap();
        let mut tap = answering(at, answer);
        let error = engine.step(&ubatch(&TOKENS, 4..7), &mut tap).unwrap_err();
        assert!(check(&error), "{error:?}");
        assert_eq!(tap.keep.tensors.last().unwrap().id.to_string(), at, "the engine went on");
        for again in [ubatch(&TOKENS, 4..7), ubatch(&TOKENS, 0..4)] {
            let error = engine.step(&again, &mut NullTap).unwrap_err();
            assert!(matches!(error, EngineError::Unfinished { step: 1 }), "{error:?}");
        }
        engine.reset();
        let mut keep = Keep::default();
        engine.step(&ubatch(&TOKENS, 0..4), &mut keep).unwrap();
        engine.step(&ubatch(&TOKENS, 4..7), &mut keep).unwrap();
        assert_same(&run::<f32>(micro(), &TOKENS, &[4, 3]), &keep.tensors);
    }

    #[test]
    fn a_failing_tap_stops_the_engine_until_it_is_reset() {
        for at in [
            "model.input_embed (step 1)",
            "conv_state_last-0 (step 1)",
            "l_out-2 (step 1)",
            "result_output (step 1)",
        ] {
            refuses_until_reset(
                at,
                |_| Err("enough".into()),
                |error| error.to_string() == format!("tap at {at}: enough"),
            );
        }
    }

    #[test]
    fn a_replacement_of_another_size_stops_the_engine_until_it_is_reset() {
        for wrong in [0, 255, 3 * 256 - 1, 3 * 256 + 1] {
            refuses_until_reset(
                "l_out-2 (step 1)",
                move |_| Ok(vec![0.0; wrong]),
                |error| {
                    matches!(error, EngineError::Replacement { tensor, got, expected: 768 }
                        if tensor == "l_out-2 (step 1)" && *got == wrong)
                },
            );
        }
    }
}
