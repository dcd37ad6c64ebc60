//! The engine with a model of the 27B's shape, whose weights are made on the spot.

use std::sync::Arc;
use std::time::Instant;

use super::{Bench, BenchError, CopyRate, Machine, copy_rate};
use crate::engine::gpu::{GpuEngine, GpuModel};
use crate::engine::{Conventions, Engine, NullTap, Numerics, Ubatch};
use crate::model::{Hparams, LayerKind, Model};
use crate::synth::{BONSAI_27B, Preset, preset, tensor_bytes, without_weights};
use crate::tensor::GgmlType;

/// What is run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelOptions {
    /// Layers, if not all.
    pub layers: Option<usize>,
    /// The type of the weights: PQ2_0 or PTQ1_0.
    pub ty: GgmlType,
    /// The type of keys and values.
    pub kv: GgmlType,
    /// Tokens in front of those that are timed, ascending.
    pub contexts: Vec<usize>,
    /// Tokens that are timed behind each of them.
    pub n_decode: usize,
    /// Lengths of prompts.
    pub prompts: Vec<usize>,
    /// Tokens of a ubatch.
    pub n_ubatch: usize,
}

impl ModelOptions {
    /// What is measured on a GPU, or what the emulator gets through.
    pub fn new(is_small: bool) -> ModelOptions {
        let (contexts, n_decode, prompts, n_ubatch) = match is_small {
            true => (vec![1, 16], 3, vec![8, 16], 8),
            false => (vec![1, 1024, 4096, 16384], 64, vec![512, 2048], 512),
        };
        let (ty, kv) = (GgmlType::PQ2_0, GgmlType::F16);
        ModelOptions { layers: None, ty, kv, contexts, n_decode, prompts, n_ubatch }
    }
}

/// Single tokens behind a context.
#[derive(Clone, PartialEq, Debug)]
pub struct DecodeRow {
    /// Tokens before the first that is timed.
    pub n_past: usize,
    /// Whether launches were recorded.
    pub is_recorded: bool,
    /// Tokens that were timed.
    pub n_tokens: usize,
    /// Seconds for all of them, on the host's clock: launches, kernels and the logits on their way back.
    pub seconds: f64,
    /// Launches for each token.
    pub launches: usize,
    /// Bytes that a token must read and write: weights, states, keys and values.
    pub bytes: u64,
}

impl DecodeRow {
    /// Tokens per second.
    pub fn rate(&self) -> f64 {
        self.n_tokens as f64 / self.seconds
    }

    /// The share of the tokens per second that copying its bytes would allow.
    pub fn share(&self, copy: &CopyRate) -> f64 {
        self.rate() * self.bytes as f64 / copy.best()
    }
}

/// A prompt.
#[derive(Clone, PartialEq, Debug)]
pub struct PrefillRow {
    /// Its tokens.
    pub n_tokens: usize,
    /// Tokens of a ubatch.
    pub n_ubatch: usize,
    /// Seconds for all of them; logits are wanted of the last.
    pub seconds: f64,
    /// Launches for all of them.
    pub launches: usize,
}

impl PrefillRow {
    /// Tokens per second.
    pub fn rate(&self) -> f64 {
        self.n_tokens as f64 / self.seconds
    }
}

/// What was measured of a model.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelRun {
    /// The device.
    pub machine: Machine,
    /// What rates are compared with.
    pub copy: CopyRate,
    /// The shape.
    pub name: String,
    /// What was run.
    pub options: ModelOptions,
    /// Layers.
    pub n_layer: usize,
    /// Bytes of all weights on the device.
    pub weight_bytes: u64,
    /// Bytes of weights that a token reads: all but the embedding table, of which it reads a row.
    pub token_weight_bytes: u64,
    /// Bytes of recurrent states that a token reads and writes.
    pub state_bytes: u64,
    /// Bytes of keys and values for each token of the context.
    pub kv_bytes_per_token: u64,
    /// Single tokens.
    pub decode: Vec<DecodeRow>,
    /// Prompts.
    pub prefill: Vec<PrefillRow>,
}

/// Measures it.
///
/// # Errors
/// If the model cannot be made, memory is short, or the engine fails.
pub fn bench_model(bench: &mut Bench<'_>, options: &ModelOptions) -> Result<ModelRun, BenchError> {
    let machine = Machine::of(bench.device)?;
    let copy = copy_rate(bench)?;
    let shape = match bench.is_small {
        true => preset("micro-bonsai").expect("a preset"),
        false => &BONSAI_27B,
    };
    let shape = Preset { n_layer: options.layers.unwrap_or(shape.n_layer), ..shape.clone() };
    let model = without_weights(&shape, 1, options.ty)?;
    (bench.progress)("weights");
    let uploaded = upload(bench, &model)?;
    let h = model.hparams();
    let timed = 2 * options.contexts.len() * (options.n_decode + WARM_UP);
    let longest = options.contexts.iter().max().copied().unwrap_or(0) + timed;
    let n_ctx = longest.max(options.prompts.iter().copied().max().unwrap_or(0)).max(1);
    let numerics = Numerics { type_k: options.kv, type_v: options.kv, ..Numerics::default() };
    let engine = GpuEngine::new(&uploaded, Conventions::default(), n_ctx)?.with_numerics(numerics)?;
    let mut run = ModelRun {
        machine,
        copy,
        name: shape.name.to_owned(),
        options: options.clone(),
        n_layer: h.n_layer,
        weight_bytes: model.gguf().tensors().iter().map(|tensor| tensor.bytes).sum(),
        token_weight_bytes: token_weight_bytes(&model),
        state_bytes: state_bytes(h),
        kv_bytes_per_token: kv_bytes(h, options.kv),
        decode: Vec::new(),
        prefill: Vec::new(),
    };
    let mut at = Runner { engine, n_past: 0, n_vocab: h.n_vocab };
    prompts(bench, options, &mut at, &mut run)?;
    decode(bench, options, &mut at, &mut run)?;
    Ok(run)
}

fn upload<'m>(bench: &mut Bench<'_>, model: &'m Model) -> Result<Arc<GpuModel<'m>>, BenchError> {
    let mut failed = None;
    let mut stand_in = |name: &str, ty, ne| match tensor_bytes(1, name, ty, ne) {
        Ok(bytes) => Some(bytes),
        Err(cause) => {
            failed.get_or_insert(BenchError::Weights { name: name.to_owned(), cause });
            None
        }
    };
    let uploaded = GpuModel::upload_with(bench.device, model, &mut stand_in, &mut |_, _| {})?;
    match failed {
        Some(error) => Err(error),
        None => Ok(Arc::new(uploaded)),
    }
}

fn token_weight_bytes(model: &Model) -> u64 {
    let table = "token_embd.weight";
    model.gguf().tensors().iter().map(|t| if t.name == table { t.bytes / t.ne[1] } else { t.bytes }).sum()
}

/// Each state is read and written: that of the delta net and the columns of its convolution.
fn state_bytes(h: &Hparams) -> u64 {
    let of_layer = h.ssm_dt_rank * h.ssm_d_state * h.ssm_d_state + h.conv_channels() * (h.ssm_d_conv - 1);
    (2 * h.count(LayerKind::DeltaNet) * of_layer * size_of::<f32>()) as u64
}

fn kv_bytes(h: &Hparams, ty: GgmlType) -> u64 {
    let row = ty.row_bytes(h.n_embd_kv() as u64).unwrap_or(0);
    2 * row * h.count(LayerKind::Attention) as u64
}

/// Tokens in front of those that are timed: a step is recorded when it comes for the second time.
const WARM_UP: usize = 3;

struct Runner<'m> {
    engine: GpuEngine<'m>,
    n_past: usize,
    n_vocab: usize,
}

impl Runner<'_> {
    /// The next tokens, with logits of the last if they are wanted.
    fn step(&mut self, n: usize, is_last: bool) -> Result<(), BenchError> {
        let positions = self.n_past..self.n_past + n;
        let ubatch = Ubatch {
            tokens: positions.clone().map(|i| (i.wrapping_mul(0x9E37_79B1) % self.n_vocab) as u32).collect(),
            positions: positions.map(|i| i as i64).collect(),
            sequences: vec![0; n],
            outputs: (0..n).map(|i| is_last && i + 1 == n).collect(),
        };
        self.engine.step(&ubatch, &mut NullTap)?;
        self.n_past += n;
        Ok(())
    }

    fn forget(&mut self) {
        self.engine.reset();
        self.n_past = 0;
    }

    /// Goes on to `n` tokens, in ubatches; logits are wanted of the last.
    fn advance(&mut self, n: usize, n_ubatch: usize) -> Result<(), BenchError> {
        while self.n_past < n {
            let next = n_ubatch.min(n - self.n_past);
            self.step(next, self.n_past + next == n)?;
        }
        Ok(())
    }
}

fn prompts(
    bench: &mut Bench<'_>,
    options: &ModelOptions,
    at: &mut Runner<'_>,
    run: &mut ModelRun,
) -> Result<(), BenchError> {
    for &n_tokens in &options.prompts {
        (bench.progress)(&format!("a prompt of {n_tokens} tokens"));
        // The first time kernels are compiled and buffers made.
        at.forget();
        at.advance(n_tokens, options.n_ubatch)?;
        at.forget();
        let (before, start) = (bench.device.launches(), Instant::now());
        at.advance(n_tokens, options.n_ubatch)?;
        bench.device.synchronize()?;
        let (seconds, launches) = (start.elapsed().as_secs_f64(), bench.device.launches() - before);
        run.prefill.push(PrefillRow { n_tokens, n_ubatch: options.n_ubatch, seconds, launches });
    }
    Ok(())
}

fn decode(
    bench: &mut Bench<'_>,
    options: &ModelOptions,
    at: &mut Runner<'_>,
    run: &mut ModelRun,
) -> Result<(), BenchError> {
    at.forget();
    for &context in &options.contexts {
        (bench.progress)(&format!("tokens behind {context}"));
        at.advance(context, options.n_ubatch)?;
        for is_recorded in [true, false] {
            at.engine.set_graph(is_recorded);
            for _ in 0..WARM_UP {
                at.step(1, true)?;
            }
            bench.device.synchronize()?;
            let (n_past, before, start) = (at.n_past, bench.device.launches(), Instant::now());
            for _ in 0..options.n_decode {
                at.step(1, true)?;
            }
            bench.device.synchronize()?;
            let (seconds, launched) = (start.elapsed().as_secs_f64(), bench.device.launches() - before);
            // Half of the tokens that are timed are in the cache on average.
            let cached = (n_past + options.n_decode / 2) as u64;
            run.decode.push(DecodeRow {
                n_past,
                is_recorded,
                n_tokens: options.n_decode,
                seconds,
                launches: launched / options.n_decode.max(1),
                bytes: run.token_weight_bytes + run.state_bytes + run.kv_bytes_per_token * cached,
            });
        }
    }
    Ok(())
}
