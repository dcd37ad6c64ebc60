//! Heads of several tensors mixed: each head is a head of the reference or of another tensor, as when a product of queries and
//! gates is split the wrong way.

use super::nearest::{TELLING, nearest, samples};
use super::pair::Pair;
use super::{Axis, Finding, Shape};

/// Heads of several tensors.
pub(super) struct Mixed;

/// Most heads and most other tensors that are asked about.
const MOST: usize = 512;

impl Shape for Mixed {
    fn name(&self) -> &'static str {
        "mixed"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let cut = pair.cut_of(Axis::Head).filter(|cut| cut.extent <= MOST && cut.part_len() >= TELLING)?;
        let fits = pair.others.iter().filter(|other| other.values.len() == pair.actual.len()).take(MOST);
        let others: Vec<_> = fits.map(|other| (other.name, other.values)).collect();
        // The reference first, so that it is named where a copy of it would do.
        let tensors: Vec<(&str, &[f32])> =
            std::iter::once(("the tensor itself", pair.reference)).chain(others).collect();
        let pools: Vec<Vec<Vec<f32>>> = tensors.iter().map(|(_, values)| samples(values, cut)).collect();
        let best = |part: &Vec<f32>| {
            let found = pools.iter().map(|pool| nearest(part, pool)).enumerate();
            let best = found.fold((f64::INFINITY, 0, 0), |best, (tensor, (distance, head))| {
                if distance < best.0 { (distance, tensor, head) } else { best }
            });
            (best.1, best.2)
        };
        let from: Vec<(usize, usize)> = samples(&pair.actual, cut).iter().map(best).collect();
        let mut used: Vec<usize> = from.iter().map(|(tensor, _)| *tensor).collect();
        used.sort_unstable();
        used.dedup();
        // Of the reference alone it is a permutation; and what is made of many is made of none.
        if used == [0] || used.len() > 3 {
            return None;
        }
        let moved = |i: usize| {
            let (o, head, k) = cut.place(i);
            let (tensor, head) = from[head];
            f64::from(tensors[tensor].1[cut.at(o, head, k)])
        };
        let bits = cut.extent as f64 * ((cut.extent * tensors.len()) as f64).log2();
        let explains = pair.chosen(0, bits, moved)?;
        let names: Vec<&str> = used.iter().map(|&tensor| tensors[tensor].0).collect();
        Some(Finding::verified(self, format!("mixed heads of {}", names.join(" and ")), explains))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Other;
    use super::super::tests::noise;
    use super::*;
    use crate::tensor::Values;

    #[test]
    fn heads_of_two_tensors() {
        let (x, gate) = (noise(72, 1), noise(72, 2));
        // heads q0 g0 q1 g1 q2 g2 in place of q0 .. q5
        let at = |i: usize| i / 24 * 24 + i / 8 % 3 * 4 + i % 4;
        let y: Vec<f32> = (0..72).map(|i| if i / 4 % 2 == 0 { x[at(i)] } else { gate[at(i)] }).collect();
        let others = [Other { name: "gate-3", values: &gate }];
        let pair = Pair::new(&x, Values::F32(&y), &[3, 6, 4]).unwrap();
        assert_eq!(Mixed.find(&pair), None);
        let found = Mixed.find(&pair.with_others(&others)).unwrap();
        assert_eq!(found.words, "mixed heads of the tensor itself and gate-3");
    }

    #[test]
    fn a_permutation_and_noise_are_none() {
        let (x, other) = (noise(72, 1), noise(72, 2));
        let others = [Other { name: "gate-3", values: &other }];
        let reversed: Vec<f32> = (0..72).map(|i| x[i / 24 * 24 + (5 - i / 4 % 6) * 4 + i % 4]).collect();
        for y in [reversed, noise(72, 3)] {
            let pair = Pair::new(&x, Values::F32(&y), &[3, 6, 4]).unwrap().with_others(&others);
            assert_eq!(Mixed.find(&pair), None);
        }
    }
}
