//! Noise of many kinds has no shape.

use super::tests::noise;
use super::{Axis, Pair, diagnose};
use crate::tensor::Values;

/// Shapes of few elements, of extents of 1, and of some hundred elements.
const SHAPES: &[&[usize]] = &[
    &[1],
    &[2],
    &[3],
    &[4],
    &[2, 1],
    &[1, 2],
    &[2, 2],
    &[4, 1],
    &[1, 1, 3],
    &[2, 1, 2],
    &[3, 4],
    &[8, 1],
    &[9, 2],
    &[16, 1],
    &[20, 3],
    &[1, 32],
    &[2, 32],
    &[8, 8],
    &[5, 6, 8],
    &[70, 2],
    &[1, 256],
];

/// A sum of three is nearly Gaussian.
fn gauss(n: usize, seed: u64) -> Vec<f32> {
    let u = noise(3 * n, seed);
    u.chunks(3).map(|u| u[0] + u[1] + u[2]).collect()
}

/// Reference and actual values of each kind of noise.
fn kinds(n: usize, seed: u64) -> Vec<(&'static str, Vec<f32>, Vec<f32>)> {
    let (x, e) = (gauss(n, 7 * seed), gauss(n, 7 * seed + 1));
    let of = |f: &dyn Fn(usize) -> f32| (0..n).map(f).collect::<Vec<f32>>();
    let outlier = of(&|i| if i == n / 3 { 1e3 * (x[i] + 4.0) } else { x[i] });
    let near_one = of(&|i| 1.0 + 1e-3 * x[i]);
    vec![
        ("unrelated", x.clone(), e.clone()),
        ("added", x.clone(), of(&|i| x[i] + 0.1 * e[i])),
        ("added 1e-3", x.clone(), of(&|i| x[i] + 1e-3 * e[i])),
        ("added 1e-5", x.clone(), of(&|i| x[i] + 1e-5 * e[i])),
        ("relative 1e-2", x.clone(), of(&|i| x[i] * (1.0 + 1e-2 * e[i]))),
        ("relative 1e-4", x.clone(), of(&|i| x[i] * (1.0 + 1e-4 * e[i]))),
        ("relative 1e-6", x.clone(), of(&|i| x[i] * (1.0 + 1e-6 * e[i]))),
        ("outlier", outlier.clone(), of(&|i| outlier[i] * (1.0 + 1e-2 * e[i]))),
        ("outlier 1e-4", outlier.clone(), of(&|i| outlier[i] * (1.0 + 1e-4 * e[i]))),
        ("nearly constant", near_one.clone(), of(&|i| 1.0 + 1e-3 * e[i])),
        ("nearly constant 1e-3", near_one.clone(), of(&|i| near_one[i] + 1e-5 * e[i])),
        ("huge", of(&|i| 1e38 * x[i].clamp(-3.0, 3.0)), of(&|i| 1e38 * (x[i] + 0.1 * e[i]).clamp(-3.0, 3.0))),
        ("denormal", of(&|i| 1e-41 * x[i]), of(&|i| 1e-41 * (x[i] + e[i]))),
        ("constant and noise", vec![2.5; n], of(&|i| 2.5 + e[i])),
        ("rounded reference", of(&|i| (127.0 * x[i]).round() / 127.0), x.clone()),
    ]
}

#[test]
fn noise_of_no_kind_is_given_a_shape() {
    for shape in SHAPES {
        let n: usize = shape.iter().product();
        let axes = Axis::usual(shape.len());
        for seed in 0..50 {
            for (kind, x, y) in kinds(n, seed) {
                let pair = Pair::new(&x, Values::F32(&y), shape).unwrap().with_axes(&axes);
                let found = &diagnose(&pair)[0];
                let is_none = ["unknown", "equal", "zero", "nonfinite"].contains(&found.shape);
                assert!(is_none, "{kind}, {shape:?}, seed {seed}: {}: {}", found.shape, found.words);
            }
        }
    }
}

/// Two shapes at once are none of them.
#[test]
fn two_shapes_at_once_are_not_told_as_one_of_them() {
    let (n, shape) = (24 * 6 * 8, [24, 6, 8]);
    for seed in 0..20 {
        let x = gauss(n, seed);
        let of = |f: &dyn Fn(usize) -> f32| (0..n).map(f).collect::<Vec<f32>>();
        for (kind, y, wrong) in [
            ("a factor and an offset", of(&|i| 2.0 * x[i] + 0.5), ["factor", "offset"]),
            ("a factor and a roll", of(&|i| 2.0 * x[(i + 48) % n]), ["factor", "roll"]),
            (
                "a sign and heads exchanged",
                of(&|i| -x[i / 48 * 48 + (i % 48 + 8) % 48]),
                ["sign", "permutation"],
            ),
            (
                "a factor and an element",
                of(&|i| if i == 7 { 99.0 } else { 1.5 * x[i] }),
                ["factor", "element"],
            ),
        ] {
            let found = diagnose(&Pair::new(&x, Values::F32(&y), &shape).unwrap());
            assert!(found.iter().all(|f| !wrong.contains(&f.shape)), "{kind}: {found:?}");
        }
    }
}
