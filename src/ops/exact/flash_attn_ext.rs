//! FLASH_ATTN_EXT: `o_d = sum_j p_j v_jd`, `p_j = exp(s_j - M) / (sum_i exp(s_i - M) + exp(sink - M))`, M the largest of all s.
//!
//! ```text
//! q {dk, n_tokens, n_head, b}   k {dk, n_kv, n_head_kv, b}   v {dv, n_kv, n_head_kv, b}   mask {n_kv, >= n_tokens, .., ..}
//! sinks {n_head}   y {dv, n_head, n_tokens, b}; head h reads head h / (n_head / n_head_kv) of k and v
//! s_j = scale q.k_j + slope m_j, or c tanh(scale / c q.k_j) + slope m_j with a softcap c
//! params: scale, max_bias (of the slopes, ALiBi), c; the precision (params 3) changes nothing on a CPU
//! terms = sum_j p_j |v_jd| w_j + |o_d| sum_j p_j w_j,  w_j = 1 + D_j + M - s_j,  D_j = |scale| sum_d |q_d k_jd| + a |slope m_j|
//! a = 1, but with ALiBi the exponent of the slope + 2
//! dk + visible keys + STEPS additions
//! ```
//! The first half of terms is the rounding of the sum and of each weight in it, the second that of the divisor. A weight's own
//! relative error is that of its logit, a sum of dk products, and that of `s_j - M`, in however many steps the running maximum
//! got there. A slope is a power of a number that is rounded to f32.
//!
//! ggml-cpu (`ggml_compute_forward_flash_attn_ext_f16`, ops.cpp) has two kernels. With at least 64 tokens and k and v of
//! one type, f32 or f16, the *tiled* one takes all in f32 and rounds nothing on purpose. Else *one chunk* rounds q to the
//! type that k's dot product takes, and where v is f16 it keeps its sum in f16, rounded after each key: see
//! `f16_accumulator`. For one token and 512 keys or more it does so for as many parts of the keys as there are
//! threads, and adds their results in f32. The plain kernels (`use_ref`) know neither tiles nor parts.
//!
//! Where the f16 sum is known to the bit, terms are only those of the division and of adding the parts:
//! `sum_c e_c |A_c| (1 + M - M_c) / S + |o| sum_c e_c S_c (1 + M - M_c) / S`, `e_c = exp(M_c - M)`, `S = sum_c e_c S_c`.
//! In ggml's own arithmetic (`arithmetic::Flash*`) the logits, the weights and all sums are those of the kernel that is taken.
//! Builds for ARM with f16 arithmetic, whose sums take the weights in f16 too, are not reproduced.

use rayon::prelude::*;

use super::attention::{Attention, Query};
use super::f16_accumulator::{Part, accumulate};
use super::{
    CpuKernel, Exact, Executed, Invocation, Operand, Oracle, OracleError, Rounding, Setting, SumOrder,
    activation_on_cpu, flash_in_ggml, round_activation, vec_dot_type,
};
use crate::arithmetic::{FlashKernel, FlashShape};
use crate::tensor::GgmlType;

pub(super) struct FlashAttnExt;

/// Roundings on the way, but for the sums: scale, softcap (two), mask, difference, exponential, rescaling (two), product, division
/// (two).
const STEPS: f64 = 11.0;

impl Oracle for FlashAttnExt {
    fn ops(&self) -> &'static [&'static str] {
        &["FLASH_ATTN_EXT"]
    }

    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError> {
        self.exact_with(node, Rounding::None)
    }

    fn roundings(&self, node: &Invocation<'_>, setting: &Setting) -> Vec<Rounding> {
        let sources = [0, 1, 2].map(|index| node.sources.get(index).and_then(Option::as_ref));
        let [Some(q), Some(k), Some(v)] = sources else { return vec![Rounding::None] };
        let Some(shape) = shape(q, k, v) else { return vec![Rounding::None] };
        let kernel = FlashKernel::of(setting.reference_kernels, shape);
        let [_, k, v] = shape.types;
        let rounds = k != GgmlType::F32 || v == GgmlType::F16;
        if setting.backend != "CPU" || !rounds || kernel == FlashKernel::Tiled {
            return vec![Rounding::None];
        }
        let parts = if kernel == FlashKernel::Split { setting.n_threads.max(1) } else { 1 };
        let is_avx = k == GgmlType::F16 && setting.has_avx_sums();
        let order = if is_avx { SumOrder::Avx } else { SumOrder::Any };
        vec![Rounding::OneChunk { parts, order }, Rounding::None]
    }

    fn exact_with(&self, node: &Invocation<'_>, rounding: Rounding) -> Result<Exact, OracleError> {
        let (k, v) = (node.source(1)?, node.source(2)?);
        let Rounding::OneChunk { parts, order } = rounding else {
            let attention = Attention::of(node, <[f32]>::to_vec)?;
            return Ok(evaluate(&attention, |query| in_f64(query, attention.dv())));
        };
        let partner = k.ty().and_then(vec_dot_type).filter(|&ty| ty != GgmlType::Q8_1);
        let partner =
            partner.ok_or_else(|| node.parameter("keys of a type with a minimum, or with no product"))?;
        let to =
            k.ty().filter(|_| partner != GgmlType::F32).and_then(|ty| activation_on_cpu(ty, CpuKernel::X86));
        let attention = Attention::of(node, |query| match to {
            Some(to) => round_activation(to, query).values,
            None => query.to_vec(),
        })?;
        if v.ty() != Some(GgmlType::F16) {
            return Ok(evaluate(&attention, |query| in_f64(query, attention.dv())));
        }
        Ok(evaluate(&attention, |query| in_f16(query, &attention, parts, order)))
    }

    fn ggml(&self, node: &Invocation<'_>, executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        let shape = shape(node.source(0)?, node.source(1)?, node.source(2)?)
            .filter(|shape| shape.types[0] == GgmlType::F32)
            .ok_or_else(|| node.arithmetic("a query that is not f32"))?;
        flash_in_ggml::attend(node, executed, shape)
    }
}

/// What decides which kernel is taken; none for sources of integers.
fn shape(q: &Operand<'_>, k: &Operand<'_>, v: &Operand<'_>) -> Option<FlashShape> {
    let [_, tokens, _, batches] = q.ne;
    Some(FlashShape { types: [q.ty()?, k.ty()?, v.ty()?], tokens, batches, n_kv: k.ne[1] })
}

/// One row of the result.
struct Row {
    values: Vec<f64>,
    terms: Vec<f64>,
    flips: Vec<f64>,
    additions: usize,
}

fn evaluate(attention: &Attention<'_>, row: impl Fn(&Query<'_>) -> Row + Sync) -> Exact {
    let rows: Vec<Row> =
        (0..attention.queries()).into_par_iter().map(|at| row(&attention.query(at))).collect();
    let additions = rows.iter().map(|row| row.additions).max().unwrap_or(0) as f64 + STEPS;
    let mut exact = Exact::collect(additions, std::iter::empty());
    for row in rows {
        exact.values.extend(row.values);
        exact.terms.extend(row.terms);
        exact.flips.extend(row.flips);
    }
    exact
}

/// Attention with nothing rounded.
fn in_f64(query: &Query<'_>, dv: usize) -> Row {
    let logits: Vec<(f64, f64)> = query.keys.iter().map(|key| query.logit(key)).collect();
    let max = logits.iter().map(|&(s, _)| s).chain(query.sink).fold(f64::NEG_INFINITY, f64::max);
    let sink = query.sink.map_or(0.0, |sink| (sink - max).exp());
    let sum = logits.iter().map(|(s, _)| (s - max).exp()).sum::<f64>() + sink;
    let (mut values, mut terms) = (vec![0.0; dv], vec![0.0; dv]);
    let mut of_divisor = query.sink.map_or(0.0, |s| sink / sum * (1.0 + max - s));
    for (key, (s, d)) in query.keys.iter().zip(logits) {
        let p = (s - max).exp() / sum;
        let w = 1.0 + d + max - s;
        of_divisor += p * w;
        for ((value, terms), &v) in values.iter_mut().zip(&mut terms).zip(key.v) {
            *value += p * f64::from(v);
            *terms += p * f64::from(v).abs() * w;
        }
    }
    for (terms, value) in terms.iter_mut().zip(&values) {
        *terms += value.abs() * of_divisor;
    }
    Row { values, terms, flips: Vec::new(), additions: query.q.len() + query.keys.len() }
}

/// Attention with f16 sums, over as many parts of the keys.
fn in_f16(query: &Query<'_>, attention: &Attention<'_>, parts: u32, order: SumOrder) -> Row {
    let (dv, size) = (attention.dv(), attention.n_kv().div_ceil(parts.max(1) as usize).max(1));
    let parts = (0..attention.n_kv().div_ceil(size)).map(|part| {
        let keys = query.keys.iter().filter(|key| key.index / size == part);
        accumulate(query, keys, dv, order)
    });
    let parts: Vec<Part> = parts.filter(|part| part.weights > 0.0).collect();
    let max = parts.iter().map(|part| part.max).chain(query.sink).fold(f64::NEG_INFINITY, f64::max);
    let sink = query.sink.map_or(0.0, |sink| (sink - max).exp());
    let sum = parts.iter().map(|part| (part.max - max).exp() * part.weights).sum::<f64>() + sink;
    let (mut values, mut terms) = (vec![0.0; dv], vec![0.0; dv]);
    let mut ends = vec![[0.0; 2]; dv];
    let mut of_divisor = query.sink.map_or(0.0, |s| sink / sum * (1.0 + max - s));
    for part in parts {
        let share = (part.max - max).exp() / sum;
        let w = 1.0 + max - part.max;
        of_divisor += share * part.weights * w;
        for (d, [lo, likely, hi]) in part.sums.into_iter().enumerate() {
            values[d] += share * f64::from(likely);
            terms[d] += share * f64::from(likely).abs() * w;
            ends[d][0] += share * f64::from(lo);
            ends[d][1] += share * f64::from(hi);
        }
    }
    for (terms, value) in terms.iter_mut().zip(&values) {
        *terms += value.abs() * of_divisor;
    }
    let flips = values.iter().zip(ends).map(|(value, [lo, hi])| (value - lo).max(hi - value)).collect();
    let known = Row { values, terms, flips, additions: query.keys.len() };
    match order {
        SumOrder::Avx => known,
        SumOrder::Any => {
            let Row { terms, additions, .. } = in_f64(query, dv);
            Row { terms, additions, ..known }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arithmetic::{GGML_CPU, Ggml};
    use crate::ops::Rows;
    use crate::ops::exact::Data;

    type Sources<'a> = [Option<Operand<'a>>; 5];

    fn float<'a>(ne: [u64; 4], values: &[f32]) -> Option<Operand<'a>> {
        Some(Operand { ne, data: Data::Float(values.to_vec()) })
    }

    fn half<'a>(ne: [u64; 4], values: &[f32]) -> Option<Operand<'a>> {
        Some(Operand { ne, data: Data::Narrow(GgmlType::F16, values.to_vec()) })
    }

    /// One token, two heads that share two keys of one element.
    fn sources<'a>(mask: &[f32; 2], sinks: Option<&[f32]>) -> Sources<'a> {
        [
            float([1, 1, 2, 1], &[0.0, 1.0]),
            half([1, 2, 1, 1], &[0.0, 2.0]),
            half([1, 2, 1, 1], &[1.0, 5.0]),
            half([2, 1, 1, 1], mask),
            sinks.and_then(|sinks| float([2, 1, 1, 1], sinks)),
        ]
    }

    fn node<'a>(sources: &'a Sources<'a>, params: &'a [i32]) -> Invocation<'a> {
        Invocation { op: "FLASH_ATTN_EXT", variant: None, params, ne: [1, 2, 1, 1], sources }
    }

    fn bits(params: [f32; 3]) -> [i32; 3] {
        params.map(|param| param.to_bits() as i32)
    }

    fn close(exact: &Exact, expected: [f64; 2]) {
        for (value, expected) in exact.values.iter().zip(expected) {
            assert!((value - expected).abs() < 1e-12, "{:?} {expected}", exact.values);
        }
    }

    #[test]
    fn values_are_weighted_by_the_softmax_of_the_products() {
        let (open, plain) = (sources(&[0.0, 0.0], None), bits([0.5, 0.0, 0.0]));
        let exact = FlashAttnExt.exact(&node(&open, &plain)).unwrap();
        // head 0: equal weights; head 1: logits 0 and 1
        let p = 1.0 / (1.0 + (-1f64).exp());
        close(&exact, [3.0, 1.0 - p + 5.0 * p]);
        // all w are 1 in head 0: (1 + 5) / 2 of the sum, and as much of the divisor
        assert_eq!((exact.terms[0], exact.additions), (6.0, 1.0 + 2.0 + STEPS));
        // in head 1 the first has M - s = 1, the second D = 1
        let expected = 2.0 * (1.0 - p) + 2.0 * 5.0 * p + 2.0 * exact.values[1];
        assert!((exact.terms[1] - expected).abs() < 1e-12);
        let masked = sources(&[0.0, f32::NEG_INFINITY], None);
        close(&FlashAttnExt.exact(&node(&masked, &plain)).unwrap(), [1.0, 1.0]);
        let sunk = sources(&[0.0, 0.0], Some(&[0.0, 1.0]));
        let e = std::f64::consts::E;
        let expected = [2.0, (1.0 + 5.0 * e) / (1.0 + 2.0 * e)];
        close(&FlashAttnExt.exact(&node(&sunk, &plain)).unwrap(), expected);
        // As a model has them.
        let bytes: Vec<u8> = [0.0f32, 1.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let weight = Data::Weight(Rows::new(GgmlType::F32, &bytes, 2, 1).unwrap());
        let mut sunk = sources(&[0.0, 0.0], None);
        sunk[4] = Some(Operand { ne: [2, 1, 1, 1], data: weight });
        close(&FlashAttnExt.exact(&node(&sunk, &plain)).unwrap(), expected);
    }

    #[test]
    fn softcap_and_slopes_change_the_logits() {
        let sources = sources(&[0.0, -4.0], None);
        let exact = FlashAttnExt.exact(&node(&sources, &bits([0.5, 0.0, 2.0]))).unwrap();
        let weighted = |s: f64| (1.0 + 5.0 * s.exp()) / (1.0 + s.exp());
        close(&exact, [weighted(-4.0), weighted(2.0 * 0.5f64.tanh() - 4.0)]);
        // two heads, max_bias 4: slopes 1/4 and 1/16
        let exact = FlashAttnExt.exact(&node(&sources, &bits([0.5, 4.0, 0.0]))).unwrap();
        close(&exact, [weighted(-1.0), weighted(1.0 - 0.25)]);
    }

    #[test]
    fn nothing_visible_gives_zero() {
        let masked = sources(&[f32::NEG_INFINITY; 2], None);
        for rounding in [Rounding::None, Rounding::OneChunk { parts: 2, order: SumOrder::Avx }] {
            let exact = FlashAttnExt.exact_with(&node(&masked, &bits([1.0, 0.0, 0.0])), rounding).unwrap();
            assert_eq!((exact.values, exact.terms), (vec![0.0; 2], vec![0.0; 2]));
        }
    }

    #[test]
    fn parts_of_the_keys_are_rounded_apart() {
        let step = 1.0 / 1024.0;
        let all: Sources<'_> = [
            float([1, 1, 1, 1], &[0.0]),
            half([1, 4, 1, 1], &[0.0; 4]),
            half([1, 4, 1, 1], &[1.0, 0.25 * step, 0.25 * step, 0.25 * step]),
            None,
            None,
        ];
        let params = bits([1.0, 0.0, 0.0]);
        let node = Invocation { ne: [1, 1, 1, 1], ..node(&all, &params) };
        let value = |parts| {
            let rounding = Rounding::OneChunk { parts, order: SumOrder::Avx };
            let exact = FlashAttnExt.exact_with(&node, rounding).unwrap();
            assert_eq!(exact.flips, [0.0]);
            exact.values[0] * 4.0
        };
        // each is lost beside 1, but two that are added apart are not
        assert_eq!((value(1), value(2)), (1.0, 1.0 + f64::from(0.5 * step)));
        // more threads than keys: each is a part of its own
        assert_eq!((value(5), value(u32::MAX)), (value(4), value(4)));
        assert_eq!(FlashAttnExt.exact(&node).unwrap().values[0] * 4.0, 1.0 + f64::from(0.75 * step));
    }

    #[test]
    fn the_kernel_follows_from_types_sizes_and_threads() {
        let info = "CPU : AVX = 1 | F16C = 1 | FMA = 1 | ";
        let cpu =
            Setting { backend: "CPU".into(), n_threads: 3, system_info: info.into(), ..Setting::default() };
        let ways = |tokens: u64, n_kv: u64, k: GgmlType, setting: &Setting| {
            let of = |ne, ty| Some(Operand { ne, data: Data::Narrow(ty, Vec::new()) });
            let all = [
                float([8, tokens, 1, 1], &[]),
                of([8, n_kv, 1, 1], k),
                of([8, n_kv, 1, 1], GgmlType::F16),
                None,
                None,
            ];
            FlashAttnExt.roundings(&node(&all, &[]), setting)
        };
        let one = |parts, order| vec![Rounding::OneChunk { parts, order }, Rounding::None];
        assert_eq!(ways(63, 512, GgmlType::F16, &cpu), one(1, SumOrder::Avx));
        assert_eq!(ways(64, 512, GgmlType::F16, &cpu), [Rounding::None]);
        assert_eq!(ways(64, 512, GgmlType::BF16, &cpu), one(1, SumOrder::Any));
        assert_eq!(ways(1, 511, GgmlType::F16, &cpu), one(1, SumOrder::Avx));
        assert_eq!(ways(1, 512, GgmlType::F16, &cpu), one(3, SumOrder::Avx));
        let plain = Setting { reference_kernels: true, ..cpu.clone() };
        assert_eq!(ways(64, 512, GgmlType::F16, &plain), one(1, SumOrder::Avx));
        let unknown = Setting { system_info: String::new(), ..cpu.clone() };
        assert_eq!(ways(1, 512, GgmlType::F16, &unknown), one(3, SumOrder::Any));
        let wider = Setting { system_info: format!("{info}AVX512 = 1 | "), ..cpu.clone() };
        assert_eq!(ways(1, 8, GgmlType::F16, &wider), one(1, SumOrder::Any));
        assert_eq!(ways(1, 8, GgmlType::F16, &Setting { backend: "CUDA0".into(), ..cpu }), [Rounding::None]);
    }

    #[test]
    fn ggml_takes_the_kernel_of_its_build() {
        // As many keys as are divided among threads; the first value is 1, the others are lost beside it one by one.
        let small = 0.25 / 1024.0;
        let values: Vec<f32> = (0..512).map(|key| if key == 0 { 1.0 } else { small }).collect();
        let ne = [1, 512, 1, 1];
        let all: Sources<'_> = [float([1; 4], &[0.0]), half(ne, &[0.0; 512]), half(ne, &values), None, None];
        let params = bits([1.0, 0.0, 0.0]);
        let node = Invocation { ne: [1, 1, 1, 1], ..node(&all, &params) };
        let ggml = |reference_kernels, n_threads| {
            let ggml = Ggml { n_threads, reference_kernels, ..Ggml::of("CPU : ").unwrap() };
            let executed = Executed { ggml, primitives: &GGML_CPU, contiguous: &[] };
            FlashAttnExt.ggml(&node, &executed).unwrap()[0] * 512.0
        };
        assert_eq!([ggml(false, 1), ggml(true, 2)], [1.0; 2]);
        assert_eq!(ggml(false, 2), 1.0 + 256.0 * small);
    }

    #[test]
    fn sources_that_do_not_fit_are_refused() {
        let params = bits([1.0, 0.0, 0.0]);
        let mut wrong = sources(&[0.0, 0.0], None);
        wrong[2] = half([1, 3, 1, 1], &[1.0, 2.0, 3.0]);
        assert!(matches!(FlashAttnExt.exact(&node(&wrong, &params)), Err(OracleError::Shape { .. })));
        let sunk = sources(&[0.0, 0.0], Some(&[1.0]));
        assert!(matches!(FlashAttnExt.exact(&node(&sunk, &params)), Err(OracleError::Shape { .. })));
    }
}
