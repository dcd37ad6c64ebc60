//! The state of the cpu engine: several sequences, rollback, copies, snapshots.

mod common;

use std::sync::LazyLock;

use common::{Keep, Tensor, assert_same};
use lockstep::engine::cpu::CpuEngine;
use lockstep::engine::{
    Conventions, Engine, EngineError, LayerSnapshot, Memory, NullTap, StateChange, Ubatch,
};
use lockstep::model::Model;
use lockstep::ops::Real;
use lockstep::tensor::TensorId;

static MODEL: LazyLock<Model> = LazyLock::new(|| Model::open(&common::micro().path).unwrap());

const N_CTX: usize = 512;
const A: [u32; 9] = [7, 300, 12, 45, 501, 300, 222, 18, 400];
const B: [u32; 6] = [9, 8, 300, 77, 1, 2];

fn engine<T: Real>(memory: Memory) -> CpuEngine<'static, T> {
    CpuEngine::<T>::new(&MODEL, Conventions::default(), N_CTX).unwrap().with_memory(memory)
}

/// Tokens `range` of each sequence, side by side.
fn together(sequences: &[(i32, &[u32])], range: std::ops::Range<usize>) -> Ubatch {
    let mut ubatch = Ubatch { tokens: vec![], positions: vec![], sequences: vec![], outputs: vec![] };
    for (sequence, tokens) in sequences {
        ubatch.tokens.extend(&tokens[range.clone()]);
        ubatch.positions.extend(range.clone().map(|p| p as i64));
        ubatch.sequences.extend(vec![*sequence; range.len()]);
        ubatch.outputs.extend(vec![true; range.len()]);
    }
    ubatch
}

fn alone(tokens: &[u32], range: std::ops::Range<usize>) -> Ubatch {
    together(&[(0, tokens)], range)
}

/// Logits of a ubatch.
fn logits<T: Real>(engine: &mut CpuEngine<'_, T>, ubatch: &Ubatch) -> ndarray::Array2<f32> {
    engine.step(ubatch, &mut NullTap).unwrap()
}

/// Values of one tensor.
fn values(tensors: &[Tensor], step: u32, name: &str) -> Vec<f64> {
    let id = TensorId { step, name: name.to_owned(), occurrence: 0 };
    tensors.iter().find(|tensor| tensor.id == id).unwrap_or_else(|| panic!("no {id}")).values.clone()
}

mod sequences {
    use super::*;

    fn each_is_as_if_alone<T: Real>(memory: Memory) {
        let mut both = engine::<T>(memory);
        let mut keep = Keep::default();
        for range in [0..3, 3..4, 4..6] {
            both.step(&together(&[(0, &A), (1, &B)], range), &mut keep).unwrap();
        }
        for (at, tokens) in [(0, &A[..6]), (1, &B[..6])] {
            let mut own = Keep::default();
            let mut single = engine::<T>(Memory::default());
            for range in [0..3, 3..4, 4..6] {
                single.step(&alone(tokens, range), &mut own).unwrap();
            }
            for step in 0..3 {
                for name in ["l_out-3", "result_output", "new_state-0", "conv_input-1", "attn_pregate-3"] {
                    let (both, own) = (values(&keep.tensors, step, name), values(&own.tensors, step, name));
                    assert_eq!(both.len(), 2 * own.len());
                    assert_eq!(both[at * own.len()..(at + 1) * own.len()], own, "{name} step {step}");
                }
            }
        }
    }

    #[test]
    fn in_one_ubatch_each_is_as_if_alone() {
        each_is_as_if_alone::<f32>(Memory::default());
        each_is_as_if_alone::<f64>(Memory::default());
    }

    #[test]
    fn in_one_stream_of_cells_too() {
        each_is_as_if_alone::<f32>(Memory { kv_unified: true, n_rs_seq: 0 });
    }

    #[test]
    fn tensors_have_the_sequences_side_by_side() {
        let mut keep = Keep::default();
        engine::<f32>(Memory::default()).step(&together(&[(0, &A), (1, &B)], 0..3), &mut keep).unwrap();
        let ne = |name: &str| keep.tensors.iter().find(|tensor| tensor.id.name == name).unwrap().ne;
        assert_eq!(ne("kq-3")[1..], [3, ne("Qcur-3")[1], 2]);
        assert_eq!((ne("kq-3")[0], ne("Qcur-3")[2]), (256, 6));
        assert_eq!((ne("conv_input-0")[0], ne("conv_input-0")[2]), (6, 2));
        assert_eq!((ne("z-0")[1], ne("final_output-0")[1..].to_vec()), (6, vec![3, 2, 1]));
        let mut keep = Keep::default();
        let unified = Memory { kv_unified: true, n_rs_seq: 0 };
        engine::<f32>(unified).step(&together(&[(0, &A), (1, &B)], 0..3), &mut keep).unwrap();
        let kq = keep.tensors.iter().find(|tensor| tensor.id.name == "kq-3").unwrap().ne;
        assert_eq!((kq[1], kq[3]), (6, 1));
    }

    #[test]
    fn forgetting_one_leaves_the_other() {
        for kv_unified in [false, true] {
            let mut engine = engine::<f32>(Memory { kv_unified, n_rs_seq: 0 });
            logits(&mut engine, &together(&[(0, &A), (1, &B)], 0..4));
            engine.change(StateChange::Remove { sequence: 1, from: 0 }).unwrap();
            let next = logits(&mut engine, &alone(&A, 4..6));
            let again = logits(&mut engine, &together(&[(1, &B)], 0..4));
            let mut single = super::engine::<f32>(Memory::default());
            logits(&mut single, &alone(&A, 0..4));
            assert_eq!(next, logits(&mut single, &alone(&A, 4..6)));
            single.reset();
            assert_eq!(again, logits(&mut single, &alone(&B, 0..4)));
        }
    }

    #[test]
    fn a_copy_goes_its_own_way() {
        for kv_unified in [false, true] {
            let mut engine = engine::<f32>(Memory { kv_unified, n_rs_seq: 0 });
            logits(&mut engine, &alone(&A, 0..4));
            engine.change(StateChange::Copy { from: 0, to: 3 }).unwrap();
            let mut other = A;
            other[4..].reverse();
            logits(&mut engine, &together(&[(3, &other)], 4..9));
            let on = logits(&mut engine, &alone(&A, 4..9));
            let mut single = super::engine::<f32>(Memory::default());
            logits(&mut single, &alone(&A, 0..4));
            assert_eq!(on, logits(&mut single, &alone(&A, 4..9)));
        }
    }
}

mod rollback {
    use super::*;

    #[test]
    fn what_was_taken_back_has_never_been() {
        for (split, back) in [(&[5usize, 3][..], 1), (&[5, 3], 2), (&[6, 1, 1], 2), (&[8], 2)] {
            for kv_unified in [false, true] {
                let mut engine = engine::<f32>(Memory { kv_unified, n_rs_seq: 2 });
                let mut wrong = A;
                wrong[8 - back..].reverse();
                let mut start = 0;
                for &n in split {
                    logits(&mut engine, &alone(&wrong, start..start + n));
                    start += n;
                }
                let from = (8 - back) as i64;
                engine.change(StateChange::Remove { sequence: 0, from }).unwrap();
                let on = logits(&mut engine, &alone(&A, 8 - back..9));
                let mut single = super::engine::<f32>(Memory::default());
                logits(&mut single, &alone(&A, 0..8 - back));
                assert_eq!(on, logits(&mut single, &alone(&A, 8 - back..9)), "{split:?} back {back}");
            }
        }
    }

    #[test]
    fn no_further_than_states_are_kept() {
        let mut engine = engine::<f32>(Memory { kv_unified: false, n_rs_seq: 1 });
        logits(&mut engine, &alone(&A, 0..5));
        let refused = engine.change(StateChange::Remove { sequence: 0, from: 3 });
        assert!(matches!(refused, Err(EngineError::Rollback { tokens: 2, kept: 1, .. })), "{refused:?}");
        engine.change(StateChange::Remove { sequence: 0, from: 4 }).unwrap();
        let refused = engine.change(StateChange::Remove { sequence: 0, from: 3 });
        assert!(matches!(refused, Err(EngineError::Rollback { tokens: 1, kept: 0, .. })), "{refused:?}");
        engine.change(StateChange::Remove { sequence: 0, from: 9 }).unwrap(); // there is nothing behind it
        let on = logits(&mut engine, &alone(&A, 4..7));
        let mut single = super::engine::<f32>(Memory::default());
        logits(&mut single, &alone(&A, 0..4));
        assert_eq!(on, logits(&mut single, &alone(&A, 4..7)));
    }
}

mod snapshots {
    use super::*;

    #[test]
    fn a_restored_engine_goes_on_as_if_nothing_had_been() {
        for kv_unified in [false, true] {
            let memory = Memory { kv_unified, n_rs_seq: 0 };
            let mut engine = engine::<f32>(memory);
            logits(&mut engine, &together(&[(0, &A), (1, &B)], 0..4));
            let snapshot = engine.snapshot().unwrap();
            let on = logits(&mut engine, &together(&[(0, &A), (1, &B)], 4..6));
            engine.restore(&snapshot).unwrap();
            assert_eq!(engine.snapshot().unwrap(), snapshot);
            assert_eq!(on, logits(&mut engine, &together(&[(0, &A), (1, &B)], 4..6)));
            let mut other = super::engine::<f32>(Memory::default());
            other.restore(&snapshot).unwrap();
            assert_eq!(on, logits(&mut other, &together(&[(0, &A), (1, &B)], 4..6)));
        }
    }

    #[test]
    fn holds_keys_columns_and_states() {
        let mut engine = engine::<f64>(Memory::default());
        let mut keep = Keep::default();
        engine.step(&alone(&A, 0..4), &mut keep).unwrap();
        let snapshot = engine.snapshot().unwrap();
        let layers = &snapshot.sequences[&0].layers;
        let LayerSnapshot::DeltaNet { conv, s } = &layers[0] else { panic!("{:?}", layers[0]) };
        assert_eq!(s.as_slice().unwrap(), values(&keep.tensors, 0, "new_state-0"));
        assert_eq!(conv.as_slice().unwrap(), values(&keep.tensors, 0, "conv_state_last-0"));
        let LayerSnapshot::Attention { v, .. } = &layers[3] else { panic!("{:?}", layers[3]) };
        assert_eq!(v.as_slice().unwrap(), values(&keep.tensors, 0, "Vcur-3"));
        assert_eq!(snapshot.sequences[&0].n_past, 4);
    }

    #[test]
    fn of_another_model_are_refused_and_change_nothing() {
        let mut engine = engine::<f32>(Memory::default());
        logits(&mut engine, &alone(&A, 0..4));
        let good = engine.snapshot().unwrap();
        let mut short = good.clone();
        short.sequences.get_mut(&0).unwrap().layers.pop();
        let mut narrow = good.clone();
        let LayerSnapshot::DeltaNet { conv, .. } = &mut narrow.sequences.get_mut(&0).unwrap().layers[0]
        else {
            panic!()
        };
        *conv = ndarray::Array2::zeros((2, 3));
        let mut swapped = good.clone();
        swapped.sequences.get_mut(&0).unwrap().layers.rotate_left(1);
        for wrong in [short, narrow, swapped] {
            let refused = engine.restore(&wrong);
            assert!(matches!(refused, Err(EngineError::OtherSnapshot { .. })), "{refused:?}");
        }
        let mut small = CpuEngine::<f32>::new(&MODEL, Conventions::default(), 3).unwrap();
        assert!(matches!(small.restore(&good), Err(EngineError::ContextFull { needed: 4, n_ctx: 3 })));
        assert_eq!(engine.snapshot().unwrap(), good);
    }

    #[test]
    fn mend_an_engine_that_failed_halfway() {
        struct Refuses;
        impl lockstep::engine::Tap for Refuses {
            fn tensor(
                &mut self,
                id: &TensorId,
                _: [u64; 4],
                _: lockstep::tensor::Values<'_>,
            ) -> Result<Option<Vec<f32>>, lockstep::engine::TapError> {
                if id.name == "l_out-2" { Err("enough".into()) } else { Ok(None) }
            }
        }
        let mut engine = engine::<f32>(Memory::default());
        logits(&mut engine, &alone(&A, 0..4));
        let snapshot = engine.snapshot().unwrap();
        assert!(engine.step(&alone(&A, 4..6), &mut Refuses).is_err());
        let changed = engine.change(StateChange::Clear);
        assert!(matches!(changed, Err(EngineError::Unfinished { step: 1 })), "{changed:?}");
        assert!(matches!(engine.snapshot(), Err(EngineError::Unfinished { .. })));
        engine.restore(&snapshot).unwrap();
        let on = logits(&mut engine, &alone(&A, 4..6));
        let mut single = super::engine::<f32>(Memory::default());
        logits(&mut single, &alone(&A, 0..4));
        assert_eq!(on, logits(&mut single, &alone(&A, 4..6)));
    }
}

#[test]
fn a_cleared_engine_counts_its_steps_on() {
    let mut engine = engine::<f32>(Memory::default());
    let mut keep = Keep::default();
    engine.step(&alone(&A, 0..3), &mut keep).unwrap();
    engine.change(StateChange::Clear).unwrap();
    engine.step(&alone(&B, 0..2), &mut keep).unwrap();
    assert_eq!(keep.tensors.last().unwrap().id.step, 1);
    let mut fresh = Keep::default();
    self::engine::<f32>(Memory::default()).step(&alone(&B, 0..2), &mut fresh).unwrap();
    let second: Vec<Tensor> = keep
        .tensors
        .iter()
        .filter(|tensor| tensor.id.step == 1 && !tensor.id.name.starts_with("kq-"))
        .map(|tensor| Tensor { id: TensorId { step: 0, ..tensor.id.clone() }, ..tensor.clone() })
        .collect();
    fresh.tensors.retain(|tensor| !tensor.id.name.starts_with("kq-"));
    assert_same(&fresh.tensors, &second);
}
