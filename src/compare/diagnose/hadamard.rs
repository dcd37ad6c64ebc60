//! A Walsh-Hadamard transform of each block of 2^k channels: `y = f H x`, with signs in front of it or behind it
//! (`y = f S H x`, `y = f H S x`), f = 1 for an orthonormal one. H is its own inverse, so that the second is
//! `H y = f S x`.

use super::factor::with_name;
use super::pair::{Pair, chance};
use super::{Finding, SHARE, Shape};

/// A Hadamard transform of blocks.
pub(super) struct Hadamard;

/// The largest block.
const LARGEST: usize = 1 << 13;

impl Shape for Hadamard {
    fn name(&self) -> &'static str {
        "hadamard"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let last = pair.shape.last().copied()?;
        let blocks = (1..).map(|k| 1usize << k).take_while(|&b| b <= LARGEST.min(last));
        // Fewer blocks cannot be told from noise: a transform of two is a rotation of pairs by 45 degrees, and it is verified all
        // the same.
        blocks.filter(|&b| last.is_multiple_of(b)).find_map(|block| {
            if !keeps_norms(pair, block) {
                return None;
            }
            let forward = transformed(pair.reference, block);
            let found = |words: &str, factor: f64, explains: f64| {
                let scale = if (factor - 1.0).abs() <= pair.limit.max(1e-6) {
                    String::new()
                } else {
                    format!(", times {}", with_name(factor, &pair.shape))
                };
                let words = format!("a Hadamard transform of each block of {block} channels{words}{scale}");
                Some(Finding::verified(self, words, explains))
            };
            if let Some((factor, explains)) = scaled(pair, &forward) {
                return found("", factor, explains);
            }
            if let Some((factor, explains)) = signed(pair, &pair.actual, &forward, last) {
                return found(", then signs", factor, explains);
            }
            let backward = transformed(&pair.actual, block);
            let (factor, explains) = signed(pair, &backward, pair.reference, last)?;
            found(" behind signs", factor, explains)
        })
    }
}

/// Whether the norms of the blocks of x and y have one ratio, as they do for each of these transforms: most sizes end here. With
/// `f = |y| / |x|`, and `y` within the limit of a transform times another factor, the norms are within twice the limit of `f` times those of x.
fn keeps_norms(pair: &Pair<'_>, block: usize) -> bool {
    let norms = |values: &[f32]| -> Vec<f64> {
        let norm = |block: &[f32]| block.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
        values.chunks_exact(block).map(norm).collect()
    };
    let (x, y) = (norms(pair.reference), norms(&pair.actual));
    let squares = |norms: &[f64]| norms.iter().map(|norm| norm * norm).sum::<f64>();
    let factor = (squares(&y) / squares(&x)).sqrt();
    let left: f64 = x.iter().zip(&y).map(|(x, y)| (y - factor * x).powi(2)).sum();
    // A limit holds of the transformed values, which rounding and the limit itself make a little larger or smaller than y.
    left <= (2.1 * pair.limit).powi(2) * squares(&y)
}

/// `f` and what it explains, for `y = f z`.
fn scaled(pair: &Pair<'_>, z: &[f32]) -> Option<(f64, f64)> {
    let (mut zz, mut zy) = (0.0, 0.0);
    for (&z, &y) in z.iter().zip(&*pair.actual) {
        zz += f64::from(z) * f64::from(z);
        zy += f64::from(z) * f64::from(y);
    }
    let factor = zy / zz;
    Some((factor, pair.explained(1, |i| factor * f64::from(z[i]))?))
        .filter(|(f, _)| f.is_finite() && *f != 0.0)
}

/// The same for `y = f S z` with a sign for each channel. A sign cannot make a size right, so it is no free number.
fn signed(pair: &Pair<'_>, y: &[f32], z: &[f32], last: usize) -> Option<(f64, f64)> {
    let (mut dots, mut zz, mut both) = (vec![0.0; last], 0.0, 0.0);
    for (i, (&z, &y)) in z.iter().zip(y).enumerate() {
        let (z, y) = (f64::from(z), f64::from(y));
        dots[i % last] += z * y;
        zz += z * z;
        both += (z * y).abs();
    }
    let factor = both / zz;
    let signs: Vec<f64> = dots.iter().map(|dot| if *dot < 0.0 { -factor } else { factor }).collect();
    let (mut left, mut size) = (0.0, 0.0);
    for (i, (&z, &y)) in z.iter().zip(y).enumerate() {
        let value = signs[i % last] * f64::from(z);
        left += (f64::from(y) - value).powi(2);
        size += value * value;
    }
    // The transform keeps norms: what is left is as large on either side of it.
    let is_explained = left <= (1.0 - SHARE) * pair.error && left <= pair.limit * pair.limit * size;
    // Each sign is a choice of two.
    let is_unlikely = || pair.chance(left, 1) + last as f64 <= chance::UNLIKELY;
    (is_explained && factor > 0.0 && is_unlikely()).then(|| (factor, 1.0 - left / pair.error))
}

/// The orthonormal transform of each block.
fn transformed(values: &[f32], block: usize) -> Vec<f32> {
    let scale = (block as f32).sqrt().recip();
    let mut out = values.to_vec();
    for block in out.chunks_exact_mut(block) {
        let mut half = 1;
        while half < block.len() {
            for pair in block.chunks_exact_mut(2 * half) {
                let (a, b) = pair.split_at_mut(half);
                for (a, b) in a.iter_mut().zip(b) {
                    (*a, *b) = (*a + *b, *a - *b);
                }
            }
            half *= 2;
        }
        block.iter_mut().for_each(|value| *value *= scale);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;
    use crate::tensor::Values;

    fn found(x: &[f32], y: &[f32], shape: &[usize]) -> Option<String> {
        Hadamard.find(&Pair::new(x, Values::F32(y), shape).unwrap()).map(|finding| finding.words)
    }

    #[test]
    fn a_block_of_four_written_out() {
        let h = transformed(&[1.0, 2.0, 3.0, 5.0], 4);
        assert_eq!(h, [5.5, -1.5, -2.5, 0.5]); // (1+2+3+5)/2, (1-2+3-5)/2, (1+2-3-5)/2, (1-2-3+5)/2
    }

    #[test]
    fn the_block_the_factor_and_the_signs_are_found() {
        let x = noise(96, 3);
        let sign = |i: usize| if i % 32 * 7 % 5 < 2 { -1.0 } else { 1.0 };
        let signed = |v: &[f32]| v.iter().enumerate().map(|(i, v)| sign(i) * v).collect::<Vec<f32>>();
        let h = transformed(&x, 16);
        let plain = "a Hadamard transform of each block of 16 channels";
        assert_eq!(found(&x, &h, &[3, 32]).unwrap(), plain);
        let unscaled: Vec<f32> = h.iter().map(|v| 4.0 * v).collect();
        assert_eq!(found(&x, &unscaled, &[3, 32]).unwrap(), format!("{plain}, times 4"));
        assert_eq!(found(&x, &signed(&h), &[3, 32]).unwrap(), format!("{plain}, then signs"));
        let behind = transformed(&signed(&x), 16);
        assert_eq!(found(&x, &behind, &[3, 32]).unwrap(), format!("{plain} behind signs"));
    }

    #[test]
    fn noise_and_signs_alone_are_none() {
        let x = noise(96, 3);
        assert_eq!(found(&x, &noise(96, 4), &[3, 32]), None);
        let signed: Vec<f32> = x.iter().enumerate().map(|(i, v)| if i % 3 == 0 { -v } else { *v }).collect();
        assert_eq!(found(&x, &signed, &[3, 32]), None);
    }
}
