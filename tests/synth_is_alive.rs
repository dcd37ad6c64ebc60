//! The signals of the synthetic models are alive: what a wrong engine gets wrong must be able to show.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use lockstep::engine::{Conventions, Engine, Tap, TapError, cpu::CpuEngine};
use lockstep::harness::ubatches;
use lockstep::model::Model;
use lockstep::synth::{preset, write_model};
use lockstep::tensor::{GgmlType, TensorId, Values};

const TOKENS: [u32; 11] = [7, 300, 12, 45, 501, 300, 222, 18, 400, 7, 5];

fn mini() -> &'static Model {
    static MODEL: OnceLock<(Model, tempfile::TempDir)> = OnceLock::new();
    &MODEL
        .get_or_init(|| {
            let dir = tempfile::tempdir().unwrap();
            let path: PathBuf = dir.path().join("mini.gguf");
            write_model(preset("mini-bonsai").unwrap(), 1, GgmlType::PQ2_0, &path, &mut |_, _| {}).unwrap();
            (Model::open(&path).unwrap(), dir)
        })
        .0
}

/// Keeps tensors by name; puts zeros in place of one.
struct Watch {
    kept: HashMap<String, Vec<f64>>,
    keep: fn(&str) -> bool,
    silence: String,
}

impl Tap for Watch {
    fn tensor(
        &mut self,
        id: &TensorId,
        _: [u64; 4],
        values: Values<'_>,
    ) -> Result<Option<Vec<f32>>, TapError> {
        if (self.keep)(&id.name) {
            let values = match values {
                Values::F32(v) => v.iter().map(|&x| f64::from(x)).collect(),
                Values::F64(v) => v.to_vec(),
            };
            self.kept.insert(id.name.clone(), values);
        }
        Ok((id.name == self.silence).then(|| vec![0.0; values.len()]))
    }
}

fn run_f32(keep: fn(&str) -> bool, silence: &str, tokens: &[u32]) -> HashMap<String, Vec<f64>> {
    let mut watch = Watch { kept: HashMap::new(), keep, silence: silence.to_owned() };
    let mut engine = CpuEngine::<f32>::new(mini(), Conventions::default(), 256).unwrap();
    engine.step(&ubatches(tokens, &[tokens.len()]).unwrap()[0], &mut watch).unwrap();
    watch.kept
}

fn run_f64(keep: fn(&str) -> bool, tokens: &[u32]) -> HashMap<String, Vec<f64>> {
    let mut watch = Watch { kept: HashMap::new(), keep, silence: String::new() };
    let mut engine = CpuEngine::<f64>::new(mini(), Conventions::default(), 256).unwrap();
    engine.step(&ubatches(tokens, &[tokens.len()]).unwrap()[0], &mut watch).unwrap();
    watch.kept
}

fn relative_l2(reference: &[f64], actual: &[f64]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let difference = norm(&mut reference.iter().zip(actual).map(|(x, y)| x - y));
    difference / norm(&mut reference.iter().copied())
}

fn all(kept: &HashMap<String, Vec<f64>>, kind: &str) -> Vec<f64> {
    let prefix = format!("{kind}-");
    kept.iter().filter(|(name, _)| name.starts_with(&prefix)).flat_map(|(_, v)| v.iter().copied()).collect()
}

#[test]
fn decays_and_betas_span_their_range() {
    let kept = run_f64(|name| name.starts_with("gate-") || name.starts_with("beta_sigmoid-"), &TOKENS);
    let decays: Vec<f64> = all(&kept, "gate").iter().map(|g| g.exp()).collect();
    let betas = all(&kept, "beta_sigmoid");
    let range = |values: &[f64]| {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        (least, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    };
    let (slowest, fastest) = (range(&decays).1, range(&decays).0);
    assert!(fastest <= 0.5 && slowest >= 0.9999, "decays from {fastest} to {slowest}");
    let (least, largest) = range(&betas);
    assert!(least <= 0.05 && largest >= 0.95, "betas from {least} to {largest}");
}

#[test]
fn attention_looks_at_several_keys() {
    let kept = run_f64(|name| name.starts_with("kq_soft_max-"), &TOKENS);
    assert_eq!(kept.len(), 16);
    for (name, probabilities) in &kept {
        // [n_head, n_tokens, n_kv]: the last token of each head sees all keys
        let n_kv = probabilities.len() / (12 * TOKENS.len());
        let rows = probabilities.chunks_exact(n_kv).skip(TOKENS.len() - 1).step_by(TOKENS.len());
        // exp(entropy) is how many keys a row looks at
        let keys: Vec<f64> = rows
            .map(|row| row.iter().filter(|&&p| p > 0.0).map(|p| -p * p.ln()).sum::<f64>().exp())
            .collect();
        let mean = keys.iter().sum::<f64>() / keys.len() as f64;
        assert!((2.0..=10.5).contains(&mean), "{name}: a row looks at {mean} keys of {}", TOKENS.len());
    }
}

#[test]
fn no_mixer_or_feed_forward_net_can_be_removed_unnoticed() {
    const LAST: &str = "l_out-63";
    let tokens = &TOKENS[..3];
    let keep: fn(&str) -> bool = |name| name == LAST;
    let whole = run_f32(keep, "", tokens);
    let rounding = relative_l2(&run_f64(keep, tokens)[LAST], &whole[LAST]);
    let mut least = (f64::INFINITY, String::new());
    for il in 0..64 {
        let mixer = if (il + 1) % 4 == 0 { "attn_output" } else { "linear_attn_out" };
        for part in [mixer, "ffn_out"] {
            let name = format!("{part}-{il}");
            let change = relative_l2(&whole[LAST], &run_f32(keep, &name, tokens)[LAST]);
            if change.is_nan() || change < least.0 {
                least = (change, name);
            }
        }
    }
    assert!(least.0 >= 1000.0 * rounding, "without {}: {:.1e}, rounding {rounding:.1e}", least.1, least.0);
}
