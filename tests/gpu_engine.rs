//! The engine on the emulated device: in few launches or in many, recorded or not, it computes the same; what it refuses changes
//! nothing; a check on it gives what the same check gives on the cpu engine.
//!
//! LOCKSTEP_DRIVER=cuda runs the same on a GPU.

mod common;

use std::sync::{Arc, LazyLock};

use common::{Keep, ubatch};
use lockstep::engine::gpu::{Device, DeviceOptions, Driver, Flavour, GpuEngine, GpuModel};
use lockstep::engine::{
    ActivationMode, Conventions, Dialect, Engine, EngineError, Memory, NullTap, Numerics, QkL2Norm,
    StateChange, Tap, TapError, Ubatch,
};
use lockstep::model::Model;
use lockstep::ops::RopePairing;
use lockstep::synth::{Preset, preset, write_model};
use lockstep::tensor::{GgmlType, TensorId, Values};
use ndarray::Array2;

static MODEL: LazyLock<Model> = LazyLock::new(|| Model::open(&common::micro().path).unwrap());

const N_CTX: usize = 64;
const TOKENS: [u32; 12] = [7, 300, 12, 45, 501, 300, 222, 18, 400, 5, 77, 310];

thread_local! {
    static UPLOADED: Arc<GpuModel<'static>> = Arc::new(GpuModel::upload(&device(), &MODEL, &mut |_, _| {}).unwrap());
}

fn device() -> Device {
    let driver = match std::env::var("LOCKSTEP_DRIVER").as_deref() {
        Ok("cuda") => Driver::Cuda,
        _ => Driver::Simt(Flavour::Fast),
    };
    Device::open(&DeviceOptions::new(driver)).unwrap()
}

fn engine() -> GpuEngine<'static> {
    UPLOADED.with(|model| GpuEngine::new(model, Conventions::default(), N_CTX).unwrap())
}

/// A made-up model on the device.
fn with_model_of<T>(preset: &Preset, check: impl FnOnce(&Arc<GpuModel<'_>>) -> T) -> T {
    let file = common::ModelFile::new();
    write_model(preset, 1, GgmlType::PQ2_0, &file.path, &mut |_, _| {}).unwrap();
    let model = Model::open(&file.path).unwrap();
    let uploaded = Arc::new(GpuModel::upload(&device(), &model, &mut |_, _| {}).unwrap());
    check(&uploaded)
}

fn with_engine_of<T>(preset: &Preset, check: impl FnOnce(GpuEngine<'_>) -> T) -> T {
    with_model_of(preset, |model| check(GpuEngine::new(model, Conventions::default(), N_CTX).unwrap()))
}

/// Logits of every step.
fn run(engine: &mut GpuEngine<'_>, splits: &[usize], tap: &mut dyn Tap) -> Vec<Array2<f32>> {
    let mut first = 0;
    let step = |n: &usize| {
        let range = first..first + n;
        first += n;
        engine.step(&ubatch(&TOKENS, range), tap).unwrap()
    };
    splits.iter().map(step).collect()
}

/// Wants tensors by name, and keeps none.
struct Wants(fn(&str) -> bool);

impl Tap for Wants {
    fn tensor(&mut self, id: &TensorId, _: [u64; 4], _: Values<'_>) -> Result<Option<Vec<f32>>, TapError> {
        assert!(self.wants(id), "{id} was not asked for");
        Ok(None)
    }

    fn wants(&self, id: &TensorId) -> bool {
        (self.0)(&id.name)
    }
}

mod few_launches_and_many {
    use super::*;

    const SPLITS: [usize; 6] = [1, 2, 1, 5, 1, 1];

    #[test]
    fn give_the_same_bits_but_for_the_order_of_sums_in_attention() {
        // All that is plain but attention, which adds up in another order in one pass.
        let mut fused = Wants(|name| name == "l_out-1");
        let mut plain =
            Wants(|name| !name.ends_with("-3") || name.starts_with("l_out") || name.starts_with("ffn"));
        let of = |tap: &mut Wants| run(&mut engine(), &SPLITS, tap);
        assert_eq!(of(&mut fused), of(&mut plain));
    }

    #[test]
    fn round_activations_alike_as_ggml_cuda_does() {
        let numerics = Numerics { activations: ActivationMode::Mmvq, ..Numerics::default() };
        let of = |tap: &mut Wants| run(&mut engine().with_numerics(numerics).unwrap(), &SPLITS, tap);
        let fused = of(&mut Wants(|name| name == "l_out-1"));
        let plain = of(&mut Wants(|name| {
            !name.ends_with("-3") || name.starts_with("l_out") || name.starts_with("ffn")
        }));
        assert_eq!(fused, plain);
        assert_ne!(fused, run(&mut engine(), &SPLITS, &mut NullTap));
        // Many tokens go through tensor cores: the same integers, and sums over blocks in another order.
        let mut many = engine().with_numerics(numerics).unwrap();
        let whole = many.step(&ubatch(&TOKENS, 0..11), &mut NullTap).unwrap();
        assert!(whole.iter().all(|x| x.is_finite()) && whole.nrows() == 11);
    }

    #[test]
    fn tensors_that_are_wanted_are_the_same_in_both() {
        let of = |filter: fn(&str) -> bool| {
            let mut keep = Keep::only(filter);
            run(&mut engine(), &SPLITS, &mut keep);
            keep.tensors
        };
        let residual: fn(&str) -> bool =
            |name| ["l_out-0", "l_out-2", "attn_residual-1", "new_state-0", "new_state-2"].contains(&name);
        let fused = of(residual);
        let all = of(|name| !name.ends_with("-3"));
        let plain: Vec<_> = all.into_iter().filter(|tensor| residual(&tensor.id.name)).collect();
        assert_eq!(fused.len(), 5 * SPLITS.len());
        common::assert_same(&plain, &fused);
    }

    #[test]
    fn a_replaced_tensor_is_gone_on_with_in_both() {
        struct Replace(fn(&str) -> bool);
        impl Tap for Replace {
            fn tensor(
                &mut self,
                id: &TensorId,
                _: [u64; 4],
                values: Values<'_>,
            ) -> Result<Option<Vec<f32>>, TapError> {
                Ok((id.name == "new_state-1" || id.name == "l_out-0").then(|| vec![0.25; values.len()]))
            }
            fn wants(&self, id: &TensorId) -> bool {
                (self.0)(&id.name)
            }
        }
        let of = |filter: fn(&str) -> bool| run(&mut engine(), &[2, 1, 1], &mut Replace(filter));
        let few = of(|name| name == "new_state-1" || name == "l_out-0");
        assert_eq!(few, of(|name| !name.ends_with("-3")));
        assert_ne!(few, run(&mut engine(), &[2, 1, 1], &mut NullTap));
    }

    /// Launches of a decoded token in a layer with a delta net, in one with attention, and around all layers.
    const OF_DELTA_NET: usize = 9;
    const OF_ATTENTION: usize = 10;
    const AROUND: usize = 3;

    /// Launches of the token behind four others.
    fn launches(preset: &Preset) -> usize {
        with_engine_of(preset, |mut engine| {
            run(&mut engine, &[2, 1, 1], &mut NullTap);
            let before = engine.device().launches();
            engine.step(&ubatch(&TOKENS, 4..5), &mut NullTap).unwrap();
            engine.device().launches() - before
        })
    }

    #[test]
    fn at_most_ten_launches_for_a_layer() {
        let [micro, mini] = ["micro-bonsai", "mini-bonsai"].map(|name| preset(name).unwrap().clone());
        let even = Preset { n_layer: 2, full_attention_interval: 2, ..micro.clone() };
        // Three models with other shares of both kinds: no other numbers give the same sums.
        for (preset, delta_nets, attentions) in [(even, 1, 1), (micro, 3, 1), (mini, 48, 16)] {
            let launches = launches(&preset);
            let expected = delta_nets * OF_DELTA_NET + attentions * OF_ATTENTION + AROUND;
            assert_eq!(launches, expected, "{delta_nets} delta nets, {attentions} layers with attention");
            let n_layer = preset.n_layer;
            let is_small = n_layer < 4; // what lies around weighs more
            assert!(is_small || launches <= 10 * n_layer, "{launches} launches for {n_layer} layers");
        }
    }

    /// Steps with nobody looking on, and with all tensors wanted but those that `fused` leaves to the kernels for few launches.
    fn assert_same_in_both(preset: &Preset, plain: fn(&str) -> bool) {
        let of = |tap: &mut dyn Tap| with_engine_of(preset, |mut engine| run(&mut engine, &[2, 1, 1], tap));
        assert_eq!(of(&mut NullTap), of(&mut Wants(plain)));
    }

    #[test]
    fn rows_that_are_too_long_for_a_norm_with_a_fold_behind_it_take_two_launches() {
        let small = Preset {
            n_layer: 2,
            full_attention_interval: 2,
            n_embd: 8192 + 128,
            n_ff: 128,
            n_head: 4,
            ssm_dt_rank: 8,
            ..preset("micro-bonsai").unwrap().clone()
        };
        assert_same_in_both(&small, |name| {
            !name.ends_with("-1") || name.starts_with("l_out") || name.starts_with("ffn")
        });
        // One more at each of two norms of a layer and at the last one.
        assert_eq!(launches(&small), OF_DELTA_NET + OF_ATTENTION + AROUND + 5);
    }

    #[test]
    fn heads_that_attention_in_one_pass_does_not_take_run_plain() {
        let odd = Preset { n_head: 8, n_embd_head: 48, ..preset("micro-bonsai").unwrap().clone() };
        assert_same_in_both(&odd, |_| true);
    }
}

mod recorded {
    use super::*;

    #[test]
    fn launches_give_the_same_bits_at_every_position() {
        let splits = [3, 1, 1, 1, 1, 1, 1, 1, 1];
        let mut without = engine().without_graph();
        assert_eq!(run(&mut engine(), &splits, &mut NullTap), run(&mut without, &splits, &mut NullTap));
    }

    #[test]
    fn for_one_set_of_sequences_they_are_not_used_for_another() {
        let pair = |position: usize| Ubatch {
            tokens: vec![TOKENS[position], TOKENS[position + 1]],
            positions: vec![position as i64; 2],
            sequences: vec![0, 1],
            outputs: vec![true; 2],
        };
        let alone = |position: usize| Ubatch {
            tokens: vec![TOKENS[position]],
            positions: vec![position as i64],
            sequences: vec![1],
            outputs: vec![true],
        };
        let steps: Vec<Ubatch> = (0..3)
            .map(pair)
            .chain((3..6).map(alone))
            .chain((3..6).map(|position| Ubatch { sequences: vec![0], ..alone(position) }))
            .chain((6..9).map(pair))
            .collect();
        let of = |mut engine: GpuEngine<'_>| -> Vec<Array2<f32>> {
            steps.iter().map(|step| engine.step(step, &mut NullTap).unwrap()).collect()
        };
        assert_eq!(of(engine()), of(engine().without_graph()));
    }

    /// Plain attention makes its memory on the way, which no recording allows.
    #[test]
    fn steps_that_need_plain_kernels_are_not_recorded() {
        let in_last_layer = Numerics { dialect: Dialect::MARCH_2026, ..Numerics::default() };
        let of = |engine: GpuEngine<'static>| {
            let mut engine = engine.with_numerics(in_last_layer).unwrap();
            run(&mut engine, &[3, 1, 1, 1], &mut NullTap)
        };
        assert_eq!(of(engine()), of(engine().without_graph()));
    }

    #[test]
    fn they_go_on_after_a_reset_and_a_snapshot() {
        let mut engine = engine();
        let first = run(&mut engine, &[3, 1, 1, 1], &mut NullTap);
        let snapshot = engine.snapshot().unwrap();
        let next = engine.step(&ubatch(&TOKENS, 6..7), &mut NullTap).unwrap();
        engine.restore(&snapshot).unwrap();
        assert_eq!(engine.step(&ubatch(&TOKENS, 6..7), &mut NullTap).unwrap(), next);
        engine.reset();
        assert_eq!(run(&mut engine, &[3, 1, 1, 1], &mut NullTap), first);
    }
}

mod what_is_refused {
    use super::*;

    fn refused(ubatch: &Ubatch) -> EngineError {
        let mut engine = engine();
        run(&mut engine, &[3], &mut NullTap);
        let before = engine.snapshot().unwrap();
        let error = engine.step(ubatch, &mut NullTap).unwrap_err();
        assert_eq!(engine.snapshot().unwrap(), before, "{error}");
        engine.step(&super::ubatch(&TOKENS, 3..4), &mut NullTap).unwrap();
        error
    }

    #[test]
    fn changes_nothing() {
        let next = ubatch(&TOKENS, 3..4);
        let wrong = refused(&Ubatch { tokens: vec![512], ..next.clone() });
        assert!(matches!(wrong, EngineError::Token { token: 512, n_vocab: 512, .. }), "{wrong}");
        let wrong = refused(&Ubatch { positions: vec![5], ..next.clone() });
        assert!(matches!(wrong, EngineError::Position { got: 5, n_past: 3, .. }), "{wrong}");
        let long = Ubatch {
            tokens: vec![1; N_CTX],
            positions: (3..3 + N_CTX as i64).collect(),
            sequences: vec![0; N_CTX],
            outputs: vec![false; N_CTX],
        };
        let wrong = refused(&long);
        assert!(matches!(wrong, EngineError::ContextFull { needed: 67, n_ctx: 64 }), "{wrong}");
    }

    #[test]
    fn a_step_that_failed_halfway_is_refused_until_the_engine_is_reset() {
        struct Fails;
        impl Tap for Fails {
            fn tensor(
                &mut self,
                id: &TensorId,
                _: [u64; 4],
                _: Values<'_>,
            ) -> Result<Option<Vec<f32>>, TapError> {
                if id.name == "l_out-2" { Err("enough".into()) } else { Ok(None) }
            }
        }
        let mut engine = engine();
        let expected = run(&mut engine, &[3, 1], &mut NullTap);
        engine.reset();
        run(&mut engine, &[3], &mut NullTap);
        let error = engine.step(&ubatch(&TOKENS, 3..4), &mut Fails).unwrap_err();
        assert!(matches!(error, EngineError::Tap { .. }), "{error}");
        let again = engine.step(&ubatch(&TOKENS, 3..4), &mut NullTap).unwrap_err();
        assert!(matches!(again, EngineError::Unfinished { step: 1 }), "{again}");
        assert!(engine.snapshot().is_err() && engine.change(StateChange::Clear).is_err());
        engine.reset();
        assert_eq!(run(&mut engine, &[3, 1], &mut NullTap), expected);
    }

    #[test]
    fn conventions_that_llama_cpp_has_not() {
        let conventions = Conventions { rope_pairing: RopePairing::Adjacent, ..Conventions::default() };
        let error = UPLOADED.with(|model| GpuEngine::new(model, conventions, N_CTX).err()).unwrap();
        let expected = format!(
            "the {} engine cannot run this: rope_pairing = adjacent: it computes as llama.cpp does; run the cpu engine",
            device().driver()
        );
        assert_eq!(error.to_string(), expected);
        let absent = Conventions { qk_l2_norm: QkL2Norm::Absent, ..Conventions::default() };
        assert!(UPLOADED.with(|model| GpuEngine::new(model, absent, N_CTX).is_err()));
    }

    #[test]
    fn keys_and_values_of_two_types() {
        let two_types = Numerics { type_k: GgmlType::F16, ..Numerics::default() };
        let error = engine().with_numerics(two_types).err().unwrap();
        let expected = "the simt engine cannot run this: keys of f16 and values of f32: it keeps both in one type; run the cpu engine";
        assert_eq!(error.to_string(), expected);
    }
}

mod sizes_without_kernels {
    use super::*;

    fn refused(preset: &Preset) -> String {
        with_model_of(preset, |model| match GpuEngine::new(model, Conventions::default(), N_CTX) {
            Err(error @ EngineError::NotSupported { .. }) => error.to_string(),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it was not refused"),
        })
    }

    #[test]
    fn are_named() {
        let micro = preset("micro-bonsai").unwrap().clone();
        let heads = refused(&Preset { ssm_d_state: 48, ..micro.clone() });
        let expected = "the simt engine cannot run this: delta net heads (ssm.state_size) of 48: its kernels take 8, 16, 32, 64 or 128; run the cpu engine";
        assert_eq!(heads, expected);
        let taps = refused(&Preset { ssm_d_conv: 9, ..micro });
        assert!(
            taps.contains("taps of a convolution (ssm.conv_kernel) of 9: its kernels take 2 to 8"),
            "{taps}"
        );
    }
}

mod memory {
    use super::*;

    #[test]
    fn states_of_many_sequences_are_kept_apart() {
        let mut engine = engine();
        let step = |sequence: i32, range: std::ops::Range<usize>| Ubatch {
            sequences: vec![sequence; range.len()],
            ..ubatch(&TOKENS, range)
        };
        let alone: Vec<Array2<f32>> =
            [0..3, 3..4].map(|range| engine.step(&step(0, range), &mut NullTap).unwrap()).into();
        for sequence in 1..6 {
            assert_eq!(
                engine.step(&step(sequence, 0..3), &mut NullTap).unwrap(),
                alone[0],
                "sequence {sequence}"
            );
        }
        engine.change(StateChange::Remove { sequence: 2, from: 0 }).unwrap();
        engine.change(StateChange::Copy { from: 5, to: 2 }).unwrap();
        for sequence in 1..6 {
            assert_eq!(
                engine.step(&step(sequence, 3..4), &mut NullTap).unwrap(),
                alone[1],
                "sequence {sequence}"
            );
        }
    }

    #[test]
    fn tokens_are_taken_back_as_far_as_states_are_kept() {
        let memory = Memory { kv_unified: false, n_rs_seq: 2 };
        let mut engine = engine().with_memory(memory).unwrap();
        let expected = run(&mut engine, &[3, 1, 1], &mut NullTap);
        engine.change(StateChange::Remove { sequence: 0, from: 3 }).unwrap();
        for (at, expected) in (3..5).zip(&expected[1..]) {
            assert_eq!(&engine.step(&ubatch(&TOKENS, at..at + 1), &mut NullTap).unwrap(), expected);
        }
        let error = engine.change(StateChange::Remove { sequence: 0, from: 1 }).unwrap_err();
        assert!(matches!(error, EngineError::Rollback { tokens: 4, kept: 2, .. }), "{error}");
    }
}
