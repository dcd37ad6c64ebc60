//! Finding a part by some of its elements; whoever finds one verifies all of them.

use super::pair::Cut;

/// Elements of a part by which it is found.
const SAMPLES: usize = 32;
/// A part of fewer elements than this has a near one among many by chance, so that only a permutation proper counts: with 4, one
/// of 1024 others is within 1e-3 in each by a chance of some 1e-8.
pub(super) const TELLING: usize = 4;

/// Some elements of each part, the same ones of all.
pub(super) fn samples(values: &[f32], cut: Cut) -> Vec<Vec<f32>> {
    let len = cut.part_len();
    let taken = len.min(SAMPLES);
    let places: Vec<usize> = (0..taken).map(|s| s * len / taken).collect();
    let part = |i: usize| places.iter().map(|&p| values[cut.at(p / cut.inner, i, p % cut.inner)]).collect();
    (0..cut.extent).map(part).collect()
}

/// The squared distance of the nearest candidate, and which it is; the first of equals.
pub(super) fn nearest(part: &[f32], candidates: &[Vec<f32>]) -> (f64, usize) {
    let distance = |candidate: &[f32]| -> f64 {
        part.iter().zip(candidate).map(|(&a, &b)| if a == b { 0.0 } else { f64::from(a - b).powi(2) }).sum()
    };
    let mut best = (f64::INFINITY, 0);
    for (i, candidate) in candidates.iter().enumerate() {
        let distance = distance(candidate);
        if distance < best.0 {
            best = (distance, i);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_of_parts() {
        // [2, 2, 2]: the parts of the middle axis are 1 2 5 6 and 3 4 7 8
        let cut = Cut { outer: 2, extent: 2, inner: 2 };
        let parts = samples(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], cut);
        assert_eq!(parts, [[1.0, 2.0, 5.0, 6.0], [3.0, 4.0, 7.0, 8.0]]);
        assert_eq!(nearest(&[3.0, 4.0, 7.0, 9.0], &parts), (1.0, 1));
    }
}
