//! One primitive in another order, with its epsilon elsewhere, or with another rounding: red at exactly the operator that has it.
//!
//! Each stands in for ggml-cpu's, beside all the others of it. What each does to a result is the table of docs/arithmetic.md
//! (`sizes.rs` measures it).

use std::collections::BTreeMap;

use lockstep::arithmetic::{
    self, Activation, DeltaToken, Factor, FlashSum, GGML_CPU, Ggml, Isa, Kernel, Primitives, RopeAngles,
};
use lockstep::dump::Dump;
use lockstep::gguf::{Gguf, sha256};
use lockstep::replay::{Arithmetic, Outcome, Walk};
use lockstep::tensor::GgmlType;

use crate::common::{case_folder, model_of_case};
use crate::nodes::{FILTERED, golden};

/// A wrong primitive: what is wrong with it, a dump, and the operator that it shows at.
pub(crate) struct Mistake {
    pub(crate) what: &'static str,
    pub(crate) dump: (&'static str, &'static str),
    pub(crate) red: &'static str,
    pub(crate) primitives: &'static Primitives,
}

const MICRO: (&str, &str) = ("micro-bonsai", "nodes-5.npz");
const NANO: (&str, &str) = ("nano-mixed-prompt", "prompt-2.npz");
const NANO_SCALAR: (&str, &str) = ("nano-mixed-prompt", "prompt-2-scalar.npz");
const MARCH: (&str, &str) = ("early-2026", "nodes-4.npz");
const UNFUSED: (&str, &str) = ("unfused", "nodes-2.npz");
/// Of `tests/goldens/flash`.
const FLASH: (&str, &str) = ("flash", "nano-7.npz");
/// Of a model whose weights are fetched.
const GEMMA: (&str, &str) = ("gemma3", "layer-0.npz");

macro_rules! mistakes {
    ($($what:literal, $dump:ident, $red:literal, $field:ident: $wrong:expr;)*) => {
        pub(crate) const MISTAKES: &[Mistake] = &[$(Mistake {
            what: $what,
            dump: $dump,
            red: $red,
            primitives: &Primitives { $field: $wrong, ..GGML_CPU },
        }),*];
    };
}

mistakes! {
    "products are rounded once, at the end", MICRO, "MUL_MAT", dot: in_f64;
    "products are added in order, in f32", MICRO, "MUL_MAT", dot: added_in_order;
    "products are added in order, in f32 (scalar build)", NANO_SCALAR, "MUL_MAT", dot: added_in_order;
    "products of several columns are added as those of one", NANO, "MUL_MAT", dot: by_single_dots;
    "the scale of an activation in Q8_0 stays in f32", NANO, "MUL_MAT", activation: scale_in_f32;
    "an activation is not rounded to bf16", NANO, "MUL_MAT", activation: bf16_whole;
    "the epsilon is outside of the root", MICRO, "RMS_NORM", rms_norm: eps_outside_the_root;
    "squares are not rounded to f32", MICRO, "RMS_NORM", rms_norm: squares_in_f64;
    "the mean square is not rounded to f32", MICRO, "RMS_NORM", rms_norm: mean_in_f64;
    "the epsilon is in the root", MARCH, "L2_NORM", l2_norm: eps_in_the_root;
    "the sum of squares is not rounded to f32", MARCH, "L2_NORM", l2_norm: norm_in_f64;
    "exponentials and sums are the C library's and f64", MICRO, "SOFT_MAX", soft_max: plain_soft_max;
    "the exponential is the C library's", MICRO, "UNARY SILU", silu_row: |_, row| plain_silu(row);
    "the exponential is the C library's", MICRO, "GLU SWIGLU", swiglu_row: plain_swiglu;
    "GELU is computed and not looked up", GEMMA, "GLU GEGLU", gelu: computed_gelu;
    "the angle is one power of the base", MICRO, "ROPE", turn: one_power;
    "the rotation is not fused", MICRO, "ROPE", rotate: |_, x, turn| arithmetic::rotate(Isa::Sse2, x, turn);
    "the taps are fused", MICRO, "SSM_CONV", conv: |_, x, w| fused_in_order(x, w);
    "the taps are added in f64", MICRO, "SSM_CONV", conv: |_, x, w| sum_in_f64(x, w);
    "products are added in f64", MICRO, "GATED_DELTA_NET", delta_token: in_f64_sums;
    "sums are a scalar build's", MICRO, "GATED_DELTA_NET", delta_token: in_scalar_sums;
    "the state decays after it has predicted", MICRO, "GATED_DELTA_NET", delta_token: decays_late;
    "the sum of values stays in f32", FLASH, "FLASH_ATTN_EXT", flash_key: values_in_f32;
    "the result is rounded to bf16", MICRO, "SCALE", scale_and_bias: rounded_scale;
    "the sum is in f32", UNFUSED, "SUM_ROWS", sum: |row| row.iter().sum();
}

fn floats(row: &Factor, x: &Activation, dot: impl Fn(&[f32], &[f32]) -> f32) -> Option<f32> {
    match (row, x) {
        (Factor::Floats(_, row), Activation::Floats(x)) => Some(dot(row, x)),
        _ => None,
    }
}

fn added_in_order(kernel: Kernel, isa: Isa, row: &Factor, x: &Activation) -> Option<f32> {
    let in_order = |row: &[f32], x: &[f32]| row.iter().zip(x).map(|(a, b)| a * b).sum();
    floats(row, x, in_order).or_else(|| kernel.dot(isa, row, x))
}

/// llamafile's products as products of single rows, which keep four registers.
fn by_single_dots(_: Kernel, isa: Isa, row: &Factor, x: &Activation) -> Option<f32> {
    Kernel::VecDot.dot(isa, row, x)
}

fn bf16_whole(kernel: Kernel, isa: Isa, ty: GgmlType, row: &[f32]) -> Option<Activation> {
    match ty {
        GgmlType::BF16 => Some(Activation::Floats(row.to_vec())),
        _ => kernel.take(isa, ty, row),
    }
}

fn scale_in_f32(kernel: Kernel, isa: Isa, ty: GgmlType, row: &[f32]) -> Option<Activation> {
    let mut taken = kernel.take(isa, ty, row)?;
    if let Activation::Blocks32(blocks) = &mut taken {
        for (block, values) in blocks.iter_mut().zip(row.chunks(32)) {
            block.d = values.iter().fold(0f32, |largest, x| largest.max(x.abs())) / 127.0;
        }
    }
    Some(taken)
}

fn sum_in_f64(x: &[f32], y: &[f32]) -> f32 {
    x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum::<f64>() as f32
}

fn in_f64(kernel: Kernel, isa: Isa, row: &Factor, x: &Activation) -> Option<f32> {
    floats(row, x, sum_in_f64).or_else(|| kernel.dot(isa, row, x))
}

fn norm_in_f64(row: &mut [f32], eps: f32) {
    scaled(row, (1.0 / squares(row).sqrt().max(eps.into())) as f32);
}

fn computed_gelu(_: Ggml, x: f32) -> f32 {
    let x = f64::from(x);
    let inner = (2.0 / std::f64::consts::PI).sqrt() * x * (1.0 + 0.044715 * x * x);
    (0.5 * x * (1.0 + inner.tanh())) as f32
}

/// The recurrence with f64 sums, and the state in f32 after each token.
fn in_f64_sums(_: Ggml, state: &mut [f32], token: DeltaToken<'_>) -> Vec<f32> {
    let DeltaToken { q, k, v, g, beta } = token;
    scaled(state, g[0].exp());
    let scale = 1.0 / (v.len() as f32).sqrt();
    let rows = state.chunks_exact_mut(k.len()).zip(v);
    let outputs = rows.map(|(row, v)| {
        let delta = (v - sum_in_f64(row, k)) * beta;
        row.iter_mut().zip(k).for_each(|(s, k)| *s = k.mul_add(delta, *s));
        sum_in_f64(row, q) * scale
    });
    outputs.collect()
}

fn values_in_f32(sum: &mut FlashSum, isa: Isa, logit: f32, v: &[f32], _: bool) {
    sum.add_key(isa, logit, v, false);
}

fn scaled(row: &mut [f32], scale: f32) {
    row.iter_mut().for_each(|x| *x *= scale);
}

fn squares(row: &[f32]) -> f64 {
    row.iter().map(|x| f64::from(x * x)).sum()
}

fn eps_outside_the_root(row: &mut [f32], eps: f32) {
    let mean = (squares(row) / row.len() as f64) as f32;
    scaled(row, 1.0 / (mean.sqrt() + eps));
}

fn squares_in_f64(row: &mut [f32], eps: f32) {
    let sum: f64 = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let mean = (sum / row.len() as f64) as f32;
    scaled(row, 1.0 / (mean + eps).sqrt());
}

fn mean_in_f64(row: &mut [f32], eps: f32) {
    let mean = squares(row) / row.len() as f64;
    scaled(row, (1.0 / (mean + f64::from(eps)).sqrt()) as f32);
}

fn eps_in_the_root(row: &mut [f32], eps: f32) {
    let sum = squares(row) as f32;
    scaled(row, 1.0 / (sum + eps).sqrt());
}

fn plain_soft_max(_: Ggml, row: &mut [f32], scale: f32, mask: Option<(f32, &[f32])>, _: Option<f32>) {
    scaled(row, scale);
    if let Some((slope, mask)) = mask {
        row.iter_mut().zip(mask).for_each(|(x, m)| *x += slope * m);
    }
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter_mut().for_each(|x| *x = (*x - max).exp());
    let sum: f64 = row.iter().map(|&x| f64::from(x)).sum();
    scaled(row, (1.0 / sum) as f32);
}

fn plain_silu(row: &mut [f32]) {
    row.iter_mut().for_each(|x| *x /= 1.0 + (-*x).exp());
}

fn plain_swiglu(_: Ggml, gate: &mut [f32], up: &[f32]) {
    plain_silu(gate);
    gate.iter_mut().zip(up).for_each(|(gate, up)| *gate *= up);
}

fn one_power(angles: &RopeAngles, _: Isa, _: usize, position: f32, power: usize) -> (f32, f32) {
    let exponent = -2.0 * power as f64 / angles.n_dims as f64;
    let angle = (f64::from(position) * f64::from(angles.freq_base).powf(exponent)) as f32;
    (angle.cos(), angle.sin())
}

fn fused_in_order(x: &[f32], w: &[f32]) -> f32 {
    x.iter().zip(w).fold(0.0, |sum, (x, w)| x.mul_add(*w, sum))
}

fn decays_late(ggml: Ggml, state: &mut [f32], token: DeltaToken<'_>) -> Vec<f32> {
    let out = arithmetic::delta_token(ggml, state, DeltaToken { g: &[0.0], ..token });
    scaled(state, token.g[0].exp());
    out
}

fn in_scalar_sums(ggml: Ggml, state: &mut [f32], token: DeltaToken<'_>) -> Vec<f32> {
    arithmetic::delta_token(Ggml { isa: Isa::Sse2, ..ggml }, state, token)
}

fn rounded_scale(_: Ggml, row: &mut [f32], scale: f32, bias: f32) {
    row.iter_mut().for_each(|x| *x = half::bf16::from_f32(*x * scale + bias).to_f32());
}

/// The model, its hash and the dump; none if the weights were not fetched.
pub(crate) fn opened((case, file): (&str, &str)) -> Option<(Gguf, String, Dump)> {
    if (case, file) == FLASH {
        return Some(golden("flash/nano-7.npz", GgmlType::Q8_0));
    }
    let model = model_of_case(case)?;
    let dump = Dump::open(&case_folder(case).join(file)).unwrap();
    Some((Gguf::open(&model).unwrap(), sha256(&model).unwrap(), dump))
}

/// The nodes of each operator that are not bit-equal, and all of them; none if the weights were not fetched.
fn replayed(dump: (&str, &str), primitives: &'static Primitives) -> Option<BTreeMap<String, (u64, u64)>> {
    let (gguf, hash, dump) = opened(dump)?;
    let walk = Walk::new(Arithmetic::Ggml, &gguf, &hash, &dump).unwrap();
    let mut walk = walk.with_primitives(primitives);
    let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    while let Some(judged) = walk.step().unwrap() {
        for judged in judged {
            if matches!(&judged.result.outcome, Outcome::Skipped(why) if why.starts_with(FILTERED)) {
                continue;
            }
            let (red, all) = counts.entry(judged.result.op.clone()).or_default();
            *red += u64::from(judged.result.outcome != Outcome::Within);
            *all += 1;
        }
    }
    Some(counts)
}

/// Primitives of operators that no committed dump holds: Hadamard products, NORM, GELU_QUICK; and of the chunked delta net, whose
/// matrices are too large, CUMSUM and SOLVE_TRI (the logits behind them are compared).
const NOT_HELD: [&str; 5] = ["fwht", "gelu_quick", "norm", "cumsum", "solve_tri"];

#[test]
fn every_primitive_has_a_mistake() {
    let own = include_str!("mistakes.rs");
    let listed = include_str!("../../src/arithmetic/primitives.rs");
    let fields = listed.lines().filter_map(|line| line.strip_prefix("    pub ")?.split(':').next());
    let mut count = 0;
    for field in fields {
        let is_planted =
            own.lines().any(|line| line.ends_with(';') && line.contains(&format!("\", {field}: ")));
        assert!(is_planted != NOT_HELD.contains(&field), "{field}");
        count += 1;
    }
    assert!(count > NOT_HELD.len());
}

#[test]
fn ggmls_own_primitives_are_all_equal() {
    for dump in [MICRO, NANO, NANO_SCALAR, MARCH, UNFUSED, FLASH] {
        let counts = replayed(dump, &GGML_CPU).unwrap();
        assert!(counts.values().all(|&(red, all)| red == 0 && all > 0), "{dump:?}: {counts:?}");
    }
}

#[test]
fn a_mistake_turns_exactly_its_operator_red() {
    for Mistake { what, dump, red, primitives } in MISTAKES {
        let Some(counts) = replayed(*dump, primitives) else { continue };
        let found: Vec<&str> =
            counts.iter().filter(|(_, (red, _))| *red > 0).map(|(operator, _)| &operator[..]).collect();
        assert_eq!(found, [*red], "{what}: {counts:?}");
    }
}
