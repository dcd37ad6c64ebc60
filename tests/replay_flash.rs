//! Replaying flash attention over f16 caches: the sum that ggml-cpu keeps in f16 is explained to the bit, and nothing else is.

mod common;

use std::path::{Path, PathBuf};

use common::{Copy, ModelFile, floats, synthetic};
use lockstep::dump::Dump;
use lockstep::gguf::{Gguf, sha256};
use lockstep::ops::exact::SumOrder;
use lockstep::replay::{NodeResult, Outcome, Replay, Rounding, replay};
use lockstep::tensor::GgmlType;

/// The node of flash attention, in both steps of the dump.
const ATTENTION: &str = "node_95";
/// A planted error, as a part of the largest element.
const PLANTED: f32 = 1e-3;

/// See `tests/goldens/flash/README.md`.
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/flash/nano-7.npz")
}

/// The model that the dump was made with.
fn nano() -> ModelFile {
    synthetic("nano-bonsai", 1, GgmlType::Q8_0)
}

fn replay_of(dump: &Dump) -> Replay {
    let model = nano();
    replay(&Gguf::open(&model.path).unwrap(), &sha256(&model.path).unwrap(), dump, &mut |_, _| {}).unwrap()
}

/// Replays the dump after a change.
fn replay_changed(change: impl FnOnce(&mut Copy)) -> Replay {
    let mut copy = Copy::of_dump(&Dump::open(&golden()).unwrap());
    change(&mut copy);
    replay_of(&Dump::open(&copy.write().path).unwrap())
}

/// What was found of flash attention, prefill and decode.
fn attention(replay: &Replay) -> Vec<&NodeResult> {
    let results: Vec<_> = replay.results.iter().filter(|r| r.op == "FLASH_ATTN_EXT").collect();
    assert_eq!(results.iter().map(|r| r.id.step).collect::<Vec<_>>(), [0, 1]);
    results
}

#[test]
fn prefill_and_decode_are_explained_by_the_f16_sum() {
    let replay = replay_of(&Dump::open(&golden()).unwrap());
    for result in attention(&replay) {
        let expected = Rounding::OneChunk { parts: 1, order: SumOrder::Avx };
        assert_eq!((&result.outcome, result.rounding, result.flips), (&Outcome::Within, expected, 0));
    }
    // The dump was made with a filter: where a source is missing, that is said. All else is compared.
    for result in &replay.results {
        match &result.outcome {
            Outcome::Within => {}
            Outcome::Skipped(reason) => {
                assert!(reason.starts_with("a source is not in the dump"), "{reason}")
            }
            other => panic!("{}: {other:?}", result.id),
        }
    }
}

#[test]
fn attention_in_f32_is_not_what_it_did() {
    // Of another backend no f16 sum is known: the same values are judged as exact attention.
    let replay = replay_changed(|copy| copy.manifest.producer.backend = "CUDA0".to_owned());
    for result in attention(&replay) {
        assert_eq!((&result.outcome, result.rounding), (&Outcome::Over, Rounding::None), "{result:?}");
        assert!(result.share > 10.0, "{}", result.share);
    }
}

#[test]
fn where_the_machine_is_not_known_ties_are_granted_either_side() {
    let replay = replay_changed(|copy| copy.manifest.producer.system_info.clear());
    for result in attention(&replay) {
        let expected = Rounding::OneChunk { parts: 1, order: SumOrder::Any };
        assert_eq!((&result.outcome, result.rounding), (&Outcome::Within, expected));
    }
}

#[test]
fn a_planted_error_is_found_with_every_order() {
    for step in [0, 1] {
        for machine in ["", "CPU : AVX = 1 | F16C = 1 | FMA = 1 | "] {
            let replay = replay_changed(|copy| {
                copy.manifest.producer.system_info = machine.to_owned();
                let payload = copy.own_payload(step, ATTENTION);
                let mut values = floats(&payload.bytes);
                let size = |v: &f32| v.abs();
                let at =
                    (0..values.len()).max_by(|&i, &j| size(&values[i]).total_cmp(&size(&values[j]))).unwrap();
                values[at] += PLANTED * values[at].abs();
                payload.bytes = common::bytes(&values);
            });
            let over: Vec<u32> =
                attention(&replay).iter().filter(|r| r.outcome == Outcome::Over).map(|r| r.id.step).collect();
            assert_eq!(over, [step], "{machine}");
        }
    }
}

#[test]
fn another_value_in_the_cache_is_found() {
    // One value of the prefill, moved by eight steps of f16: the decode reads it from the cache.
    let replay = replay_changed(|copy| {
        let payload = copy.own_payload(0, "Vcur-1");
        let mut values = floats(&payload.bytes);
        values[0] *= 1.0 + 1.0 / 128.0;
        payload.bytes = common::bytes(&values);
    });
    assert!(attention(&replay).iter().all(|r| r.outcome == Outcome::Over));
}
