//! The values of synthetic weights.
//!
//! Matrices are ternary with one scale per 128, scaled so that an input of root mean square 1 gives an output of root
//! mean square `gain`. The gains and the ranges of the small tensors keep every signal alive: attention looks at several
//! keys, decays reach from below 0.5 to above 0.9999, betas from below 0.05 to above 0.95, and each layer's mixer and
//! feed-forward net moves the residual stream by a share that rounding cannot hide (`tests/synth_is_alive.rs`).

use half::f16;

use super::rng::Rng;

/// Elements that share a scale in `PQ2_0` and `PTQ1_0`.
pub(super) const GROUP: usize = 128;
/// The variance of a trit: two of three are +-1.
const TRIT_VARIANCE: f64 = 2.0 / 3.0;
/// Scales of groups vary by this share around their mean.
const SCALE_SPREAD: f64 = 0.25;

/// Root mean square of a projection's output for an input of root mean square 1.
fn gain(weight: &str) -> f64 {
    match weight {
        "token_embd" => 1.0, // of a row itself
        "output" => 2.0,
        "attn_output" | "ssm_out" | "ffn_down" => 0.5, // what a layer adds to the residual stream
        "attn_q" | "attn_k" | "attn_v" | "attn_qkv" | "attn_gate" | "ffn_gate" | "ffn_up" => 1.0,
        "ssm_alpha" => 0.7,
        "ssm_beta" => 2.0,
        other => unreachable!("`{other}` has no gain: every matrix of the tensor table is listed"),
    }
}

/// The bare name: `ffn_up` for `blk.3.ffn_up.weight`, `ssm_dt` for `blk.3.ssm_dt.bias`.
pub(super) fn bare(name: &str) -> &str {
    let name = name.strip_suffix(".weight").or_else(|| name.strip_suffix(".bias")).unwrap_or(name);
    name.rsplit_once('.').map_or(name, |(_, bare)| bare)
}

/// Whether a tensor is one of the large matrices, or the table.
pub(super) fn is_ternary(name: &str, ne: &[u64]) -> bool {
    ne.len() == 2 && !matches!(bare(name), "ssm_conv1d" | "ssm_alpha" | "ssm_beta")
}

/// The mean of the scales of a ternary matrix's groups.
fn mean_scale(bare: &str, n_in: usize) -> f64 {
    // A row of the table is an activation itself; everything else multiplies one.
    let n_in = if bare == "token_embd" { 1.0 } else { n_in as f64 };
    gain(bare) / (n_in * TRIT_VARIANCE).sqrt()
}

/// The least and the largest scale that a group of a ternary matrix can have.
pub(super) fn group_scales(bare: &str, n_in: usize) -> (f16, f16) {
    let mean = mean_scale(bare, n_in);
    (f16::from_f64(mean * (1.0 - SCALE_SPREAD)), f16::from_f64(mean * (1.0 + SCALE_SPREAD)))
}

/// One row of a ternary matrix.
pub(super) fn ternary_row(name: &str, rng: &mut Rng, row: &mut [f32]) {
    let mean = mean_scale(bare(name), row.len());
    let mut trits = [0; GROUP];
    for group in row.chunks_exact_mut(GROUP) {
        let d = f16::from_f64(mean * (1.0 + SCALE_SPREAD * (2.0 * rng.uniform() - 1.0))).to_f32();
        rng.trits(&mut trits);
        group.iter_mut().zip(&trits).for_each(|(value, &trit)| *value = f32::from(trit) * d);
    }
}

/// One row of a plain projection (`ssm_alpha`, `ssm_beta`).
pub(super) fn normal_row(name: &str, rng: &mut Rng, row: &mut [f32]) {
    let scale = gain(bare(name)) / (row.len() as f64).sqrt();
    row.iter_mut().for_each(|value| *value = (scale * rng.normal()) as f32);
}

/// Bias of the decay gate: around here softplus bends.
const DT_BIAS: (f64, f64) = (-1.0, 1.0);
/// Least and largest `-ssm_a`; from head to head in equal ratios, so that some heads remember and some forget.
const DECAY_RATE: (f64, f64) = (2e-5, 1.2);

/// The values of a small tensor.
pub(super) fn vector(name: &str, rng: &mut Rng, values: &mut [f32]) {
    let n = values.len();
    let mut fill = |mean: f64, deviation: f64| {
        values.iter_mut().for_each(|value| *value = (mean + deviation * rng.normal()) as f32);
    };
    match bare(name) {
        "ssm_conv1d" => fill(0.0, 0.5),
        "attn_q_norm" | "attn_k_norm" => fill(1.25, 0.25),
        "ssm_dt" => {
            let (low, high) = DT_BIAS;
            values.iter_mut().for_each(|value| *value = (low + (high - low) * rng.uniform()) as f32);
        }
        "ssm_a" => {
            let rates = geometric(DECAY_RATE, n);
            let first = rng.next() as usize % n; // another head remembers longest in each layer
            for (head, value) in values.iter_mut().enumerate() {
                *value = -(rates[(head + first) % n] as f32);
            }
        }
        _ => fill(1.0, 0.2), // the weights of the norms
    }
}

/// `n` values from the least to the largest in equal ratios. The ratio is found by bisection with multiplications only,
/// so that it does not depend on a mathematical library.
fn geometric((least, largest): (f64, f64), n: usize) -> Vec<f64> {
    let span = largest / least;
    let power = |ratio: f64| (1..n).fold(1.0, |product, _| product * ratio);
    let (mut low, mut high) = (1.0, span);
    for _ in 0..100 {
        let middle = low + (high - low) / 2.0;
        if power(middle) < span { low = middle } else { high = middle }
    }
    let mut value = least;
    let mut next = || {
        let this = value;
        value *= low;
        this
    };
    (0..n).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_names() {
        assert_eq!(bare("blk.3.ffn_up.weight"), "ffn_up");
        assert_eq!(bare("token_embd.weight"), "token_embd");
        assert_eq!(bare("blk.0.ssm_a"), "ssm_a");
        assert_eq!(bare("blk.0.ssm_dt.bias"), "ssm_dt");
    }

    #[test]
    fn geometric_rates_end_where_they_should() {
        let rates = geometric((1e-4, 1.0), 5);
        assert_eq!(rates.len(), 5);
        assert!(
            rates.iter().zip([1e-4, 1e-3, 1e-2, 1e-1, 1.0]).all(|(a, b)| (a / b - 1.0f64).abs() <= 1e-12)
        );
    }
}
