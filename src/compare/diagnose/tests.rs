//! Each shape is planted, and it is the first that is named; noise of the size of rounding does not hide it.

use half::bf16;

use super::{Axis, Other, Pair, SHAPES, diagnose};
use crate::tensor::Values;

/// Numbers in -1 .. 1 from a linear congruential generator.
pub(super) fn noise(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// Each row over `sqrt(mean of squares + e)`.
pub(super) fn normalised(input: &[f32], row: usize, e: f64) -> Vec<f32> {
    let divided = |a: &[f32]| {
        let mean = a.iter().map(|&a| f64::from(a).powi(2)).sum::<f64>() / a.len() as f64;
        let scale = 1.0 / (mean + e).sqrt();
        a.iter().map(|&a| (f64::from(a) * scale) as f32).collect::<Vec<_>>()
    };
    input.chunks(row).flat_map(divided).collect()
}

/// 80 tokens of 6 heads of 32.
const SHAPE: [usize; 3] = [80, 6, 32];
const N: usize = 80 * 6 * 32;

/// What is planted under the name of each shape, from a reference: the reference, the actual values.
fn planted(name: &str) -> (Vec<f32>, Vec<f32>) {
    let mut x = noise(N, 1);
    let other = noise(N, 2);
    let of = |f: &dyn Fn(usize) -> f32| (0..N).map(f).collect::<Vec<f32>>();
    let (token, head, channel) = (|i: usize| i / 192, |i: usize| i / 32 % 6, |i: usize| i % 32);
    let wrong = |x: &[f32], is_wrong: &dyn Fn(usize) -> bool| {
        (0..N).map(|i| if is_wrong(i) { other[i] } else { x[i] }).collect::<Vec<f32>>()
    };
    let y = match name {
        "stale" => other.clone(),
        "constant" => vec![1.0; N],
        // The input is that of `first`.
        "activation" => of(&|i| other[i].tanh()),
        "sign" => of(&|i| -x[i]),
        "factor" => of(&|i| x[i] / 32f32.sqrt()),
        "offset" => of(&|i| x[i] + 0.25),
        "roll" => of(&|i| if i < 192 { 0.0 } else { x[i - 192] }),
        "transpose" => of(&|i| x[i / 192 * 192 + i % 6 * 32 + i % 192 / 6]),
        "permutation" => of(&|i| x[i / 192 * 192 + (head(i) % 2 * 3 + head(i) / 2) * 32 + channel(i)]),
        "mixed" => wrong(&x, &|i| head(i) % 2 == 1),
        "hadamard" => of(&|i| {
            let term = |j: usize| {
                let sign = if (channel(i) & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
                sign * f64::from(x[i / 32 * 32 + j])
            };
            ((0..32).map(term).sum::<f64>() / 32f64.sqrt()) as f32
        }),
        "denominator" => {
            let small = of(&|i| x[i] * 10f32.powi(-(head(i) as i32)));
            x = normalised(&small, 32, 1e-6);
            normalised(&small, 32, 32e-6)
        }
        "grid" => of(&|i| bf16::from_f32(x[i]).to_f32()),
        "element" => wrong(&x, &|i| i == 1234),
        "channel" => wrong(&x, &|i| channel(i) == 5),
        "head" => wrong(&x, &|i| head(i) == 5),
        "period" => wrong(&x, &|i| channel(i) % 8 == 3),
        "chunk_edges" => wrong(&x, &|i| token(i) >= 64),
        "tail_rows" => wrong(&x, &|i| token(i) >= 77),
        "onset" => wrong(&x, &|i| token(i) >= 7),
        "own_factor" => of(&|i| x[i] * (2.0 + (channel(i) * 7 % 11) as f32)),
        "growth" => of(&|i| x[i] + 1e-2 * token(i) as f32 * other[i]),
        other => panic!("nothing is planted for {other}"),
    };
    (x, y)
}

/// Whether it is what is planted for `activation`, up to rounding; the input of other shapes is not known.
fn is_of_input(y: &[f32], input: &[f32]) -> bool {
    y.iter().zip(input).all(|(y, a)| (y - a.tanh()).abs() <= 1e-4)
}

fn first(x: &[f32], y: &[f32], others: &[Other<'_>]) -> (&'static str, String) {
    let axes = [Axis::Token, Axis::Head, Axis::Channel];
    let mut pair = Pair::new(x, Values::F32(y), &SHAPE).unwrap().with_axes(&axes).with_others(others);
    let input = noise(N, 2);
    if is_of_input(y, &input) {
        pair = pair.with_input(&input);
    }
    let found = diagnose(&pair);
    (found[0].shape, found.iter().map(|finding| finding.words.as_str()).collect::<Vec<_>>().join("; "))
}

#[test]
fn each_shape_is_the_first_to_be_named() {
    let (unrelated, mixed_in) = (noise(N, 3), noise(N, 2));
    for shape in SHAPES {
        let (x, y) = planted(shape.name());
        let values = match shape.name() {
            "stale" => &y,
            "mixed" => &mixed_in,
            _ => &unrelated,
        };
        let others = [Other { name: "Kcur-3", values }];
        let (named, words) = first(&x, &y, &others);
        assert_eq!(named, shape.name(), "{words}");
    }
}

#[test]
fn what_two_right_engines_differ_by_does_not_hide_a_shape() {
    for shape in SHAPES {
        // Rounding of the values themselves takes them off the grid, and apart.
        if matches!(shape.name(), "grid" | "constant") {
            continue;
        }
        let (x, y) = planted(shape.name());
        let (e, mixed_in) = (noise(N, 4), noise(N, 2));
        let values = if shape.name() == "mixed" { &mixed_in } else { &y };
        let others = [Other { name: "Kcur-3", values }];
        let others = if matches!(shape.name(), "stale" | "mixed") { &others[..] } else { &[] };
        let noisy: Vec<f32> = y.iter().zip(&e).map(|(y, e)| y * (1.0 + 1e-5 * e)).collect();
        let (named, words) = first(&x, &noisy, others);
        assert_eq!(named, shape.name(), "{words}");
    }
}

#[test]
fn noise_has_no_shape() {
    for size in [1.0, 1e-2, 1e-4] {
        let (x, e) = (noise(N, 1), noise(N, 5));
        let y: Vec<f32> = x.iter().zip(&e).map(|(x, e)| x + size * e).collect();
        let (named, words) = first(&x, &y, &[]);
        assert_eq!(named, "unknown", "{words}");
    }
}

#[test]
fn names_are_unique() {
    let mut names: Vec<&str> = SHAPES.iter().map(|shape| shape.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), SHAPES.len());
}
