//! What was measured on a device, as versioned JSON: fields are only ever added, and what is not finite is null.

use serde::Serialize;

use super::number::finite;
use crate::bench::{CopyRate, Kernels, Machine, ModelRun};

/// The version of the schema.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<T: Serialize> {
    version: u32,
    what: &'static str,
    date: String,
    is_emulated: bool,
    device: String,
    cuda: String,
    memory: usize,
    n_sm: usize,
    copy_bytes: usize,
    copy_rate: Option<f64>,
    copy_rate_driver: Option<f64>,
    copy_rate_kernel: Option<f64>,
    #[serde(flatten)]
    found: T,
}

fn document<T: Serialize>(what: &'static str, date: &str, of: (&Machine, &CopyRate), found: T) -> String {
    let (machine, copy) = of;
    let document = Document {
        version: VERSION,
        what,
        date: date.to_owned(),
        is_emulated: machine.is_emulated,
        device: machine.device.clone(),
        cuda: machine.cuda.clone(),
        memory: machine.memory,
        n_sm: machine.n_sm,
        copy_bytes: copy.bytes,
        copy_rate: finite(copy.best()),
        copy_rate_driver: finite(copy.driver),
        copy_rate_kernel: finite(copy.kernel),
        found,
    };
    serde_json::to_string_pretty(&document).expect("numbers and texts have JSON") + "\n"
}

#[derive(Serialize)]
struct KernelsJson<'a> {
    kernels: Vec<KernelJson<'a>>,
}

#[derive(Serialize)]
struct KernelJson<'a> {
    group: &'a str,
    kernel: &'a str,
    shape: &'a str,
    us: Option<f64>,
    least_us: Option<f64>,
    launches: usize,
    copies: usize,
    bytes: usize,
    bytes_per_second: Option<f64>,
    share_of_copy_rate: Option<f64>,
    flops: Option<u64>,
    flops_per_second: Option<f64>,
}

/// Kernels one by one; ends with a line feed.
pub fn bench_kernels_json(found: &Kernels, date: &str) -> String {
    let rows = found.rows.iter().map(|row| KernelJson {
        group: row.group,
        kernel: &row.kernel,
        shape: &row.shape,
        us: finite(row.us),
        least_us: finite(row.least_us),
        launches: row.launches,
        copies: row.copies,
        bytes: row.bytes,
        bytes_per_second: finite(row.rate()),
        share_of_copy_rate: finite(row.rate() / found.copy.best()),
        flops: row.flops,
        flops_per_second: row.flop_rate().and_then(finite),
    });
    let found_json = KernelsJson { kernels: rows.collect() };
    document("kernels", date, (&found.machine, &found.copy), found_json)
}

#[derive(Serialize)]
struct ModelJson<'a> {
    model: &'a str,
    n_layer: usize,
    r#type: &'static str,
    kv_type: &'static str,
    weight_bytes: u64,
    token_weight_bytes: u64,
    state_bytes: u64,
    kv_bytes_per_token: u64,
    decode: Vec<DecodeJson>,
    prefill: Vec<PrefillJson>,
}

#[derive(Serialize)]
struct DecodeJson {
    n_past: usize,
    is_recorded: bool,
    n_tokens: usize,
    seconds: Option<f64>,
    tokens_per_second: Option<f64>,
    launches_per_token: usize,
    bytes_per_token: u64,
    share_of_roofline: Option<f64>,
}

#[derive(Serialize)]
struct PrefillJson {
    n_tokens: usize,
    n_ubatch: usize,
    seconds: Option<f64>,
    tokens_per_second: Option<f64>,
    launches: usize,
}

/// The engine with a model; ends with a line feed.
pub fn bench_model_json(found: &ModelRun, date: &str) -> String {
    let decode = found.decode.iter().map(|row| DecodeJson {
        n_past: row.n_past,
        is_recorded: row.is_recorded,
        n_tokens: row.n_tokens,
        seconds: finite(row.seconds),
        tokens_per_second: finite(row.rate()),
        launches_per_token: row.launches,
        bytes_per_token: row.bytes,
        share_of_roofline: finite(row.share(&found.copy)),
    });
    let prefill = found.prefill.iter().map(|row| PrefillJson {
        n_tokens: row.n_tokens,
        n_ubatch: row.n_ubatch,
        seconds: finite(row.seconds),
        tokens_per_second: finite(row.rate()),
        launches: row.launches,
    });
    let found_json = ModelJson {
        model: &found.name,
        n_layer: found.n_layer,
        r#type: found.options.ty.name(),
        kv_type: found.options.kv.name(),
        weight_bytes: found.weight_bytes,
        token_weight_bytes: found.token_weight_bytes,
        state_bytes: found.state_bytes,
        kv_bytes_per_token: found.kv_bytes_per_token,
        decode: decode.collect(),
        prefill: prefill.collect(),
    };
    document("model", date, (&found.machine, &found.copy), found_json)
}
