//! Two tensors, what is known about them, and how well something explains their difference.

pub(super) mod chance;
mod reading;

use std::borrow::Cow;

use super::{Axis, SHARE};

use crate::compare::{BUDGET_FACTOR, CUMULATIVE_RELATIVE_L2, CompareError, U};
use crate::tensor::Values;

pub(super) use reading::{state, unknown};

/// What rounding does to a shape that is applied to right values: the most additions are those of a Hadamard transform of 2^13,
/// a tree of 13 levels; `8 sqrt(13) u` is the budget of an operator with so many.
const ROUNDING: f64 = BUDGET_FACTOR * 3.61 * U;

/// Another tensor whose values the actual one may hold.
#[derive(Clone, Copy, Debug)]
pub struct Other<'a> {
    /// What it is called in the finding: `Kcur-3`, `new_state-0 of step 1`.
    pub name: &'a str,
    /// Its values, as many as those of the pair.
    pub values: &'a [f32],
}

/// A reference and an actual tensor of one shape, with what is known about them.
#[derive(Clone, Debug)]
pub struct Pair<'a> {
    pub(super) reference: &'a [f32],
    pub(super) actual: Cow<'a, [f32]>,
    pub(super) shape: Vec<usize>,
    pub(super) axes: Vec<Axis>,
    /// The relative L2 that two right tensors may differ by.
    pub(super) limit: f64,
    pub(super) input: Option<&'a [f32]>,
    pub(super) others: &'a [Other<'a>],
    pub(super) positions: &'a [i32],
    pub(super) chunks: &'a [usize],
    /// `|y - x|^2`.
    pub(super) error: f64,
}

impl<'a> Pair<'a> {
    /// Two tensors of this shape, outermost first; nothing else is known.
    ///
    /// # Errors
    /// If a side's values are not as many as the shape says.
    pub fn new(reference: &'a [f32], actual: Values<'a>, shape: &[usize]) -> Result<Pair<'a>, CompareError> {
        if reference.len() != actual.len() {
            return Err(CompareError::Elements { reference: reference.len(), actual: actual.len() });
        }
        let product = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
        if product != Some(reference.len()) {
            let mut ne = [1; 4];
            ne.iter_mut().zip(shape.iter().rev()).for_each(|(ne, &extent)| *ne = extent as u64);
            return Err(CompareError::Shape { side: "reference", ne, values: reference.len() });
        }
        let actual = match actual {
            Values::F32(values) => Cow::Borrowed(values),
            Values::F64(values) => Cow::Owned(values.iter().map(|&value| value as f32).collect()),
        };
        let error = reference.iter().zip(&*actual).map(|(&x, &y)| squared_distance(x, y.into())).sum();
        Ok(Pair {
            reference,
            actual,
            shape: shape.to_vec(),
            axes: Axis::usual(shape.len()),
            limit: CUMULATIVE_RELATIVE_L2,
            input: None,
            others: &[],
            positions: &[],
            chunks: &[],
            error,
        })
    }

    /// What the axes count, outermost first; ignored if they are not as many as the axes.
    pub fn with_axes(mut self, axes: &[Axis]) -> Pair<'a> {
        if axes.len() == self.shape.len() {
            self.axes = axes.to_vec();
        }
        self
    }

    /// The relative L2 that two right tensors may differ by, at least what a shape's own arithmetic rounds; without it the
    /// cumulative limit.
    pub fn with_limit(mut self, relative_l2: f64) -> Pair<'a> {
        if (0.0..=CUMULATIVE_RELATIVE_L2).contains(&relative_l2) {
            self.limit = relative_l2.max(ROUNDING);
        }
        self
    }

    /// The largest error of each element that rounding explains: two right tensors differ by no more than their norm.
    pub fn with_limits(self, limits: &[f64]) -> Pair<'a> {
        let norm: f64 = limits.iter().map(|limit| limit * limit).sum();
        let size: f64 = self.reference.iter().map(|&x| f64::from(x).powi(2)).sum();
        self.with_limit((norm / size).sqrt())
    }

    /// What the tensor was computed from by an operator that keeps the shape, such as a norm.
    pub fn with_input(mut self, input: &'a [f32]) -> Pair<'a> {
        self.input = (input.len() == self.reference.len()).then_some(input);
        self
    }

    /// Tensors whose values the actual one may hold.
    pub fn with_others(mut self, others: &'a [Other<'a>]) -> Pair<'a> {
        self.others = others;
        self
    }

    /// The position of each token; without it they count from 0.
    pub fn with_positions(mut self, positions: &'a [i32]) -> Pair<'a> {
        self.positions = positions;
        self
    }

    /// Lengths that tokens were cut into, beside chunks of 64.
    pub fn with_chunks(mut self, chunks: &'a [usize]) -> Pair<'a> {
        self.chunks = chunks;
        self
    }

    /// The share of the error that values explain, if they do and noise would hardly be explained so well; `free` is how many numbers were
    /// fitted.
    pub(super) fn explained(&self, free: usize, predicted: impl Fn(usize) -> f64) -> Option<f64> {
        self.chosen(free, 0.0, predicted)
    }

    /// The same of values that are one of `2^bits` choices. An error that is left over ends the loop as soon as it is too large.
    pub(super) fn chosen(&self, free: usize, bits: f64, predicted: impl Fn(usize) -> f64) -> Option<f64> {
        if free * 2 > self.actual.len() {
            return None;
        }
        let most = (1.0 - SHARE) * self.error;
        let (mut left, mut size) = (0.0, 0.0);
        for (i, &y) in self.actual.iter().enumerate() {
            let value = predicted(i);
            left += squared_distance(y, value);
            size += if value.is_finite() { value * value } else { 0.0 };
            let is_within = left <= most;
            if !is_within {
                return None;
            }
        }
        let is_right = left <= self.limit * self.limit * size;
        (is_right && self.is_unlikely(left, free, bits, predicted)).then(|| 1.0 - left / self.error)
    }

    /// Whether noise is hardly explained up to this: by how little is left of its energy, or, where an outlier has most of that,
    /// by how many elements are nearer to what is predicted. A fitted number follows the outlier, so that each of the others
    /// is nearer or not by chance.
    fn is_unlikely(&self, left: f64, free: usize, bits: f64, predicted: impl Fn(usize) -> f64) -> bool {
        if self.chance(left, free) + bits <= chance::UNLIKELY {
            return true;
        }
        let (mut touched, mut nearer) = (0, 0);
        for (i, (&x, &y)) in self.reference.iter().zip(&*self.actual).enumerate() {
            let distance = squared_distance(x, y.into());
            let value = predicted(i);
            if value != f64::from(x) {
                touched += 1;
                nearer += usize::from(squared_distance(y, value) < distance);
            }
        }
        // Nine of ten, as `SHARE` is by norm.
        let is_nearer = free <= 1 && 10 * nearer >= 9 * touched;
        is_nearer && chance::of_heads(nearer, touched) + bits <= chance::UNLIKELY
    }

    /// The log2 of the chance that of noise no more is left than this, where so many numbers are fitted.
    pub(super) fn chance(&self, left: f64, free: usize) -> f64 {
        let (mut fourth_powers, mut rounding) = (0.0, 0.0);
        for (&x, &y) in self.reference.iter().zip(&*self.actual) {
            fourth_powers += squared_distance(x, y.into()).powi(2);
            rounding += if y.is_finite() { (f64::from(y) * U).powi(2) } else { 0.0 };
        }
        let carriers = chance::carriers(self.error, fourth_powers);
        // Values of 24 bits are equal more often than real numbers.
        chance::of_share(left.max(rounding) / self.error, carriers, free, self.actual.len())
    }

    /// The cut along an axis.
    pub(super) fn cut(&self, axis: usize) -> Cut {
        Cut {
            outer: self.shape[..axis].iter().product(),
            extent: self.shape[axis],
            inner: self.shape[axis + 1..].iter().product(),
        }
    }

    /// The cut along the axis that counts this.
    pub(super) fn cut_of(&self, axis: Axis) -> Option<Cut> {
        let at = self.axes.iter().position(|&a| a == axis)?;
        (self.shape[at] > 1).then(|| self.cut(at))
    }

    /// Each vector along the innermost axis is a part.
    pub(super) fn rows(&self) -> Cut {
        let inner = self.shape.last().copied().unwrap_or(1).max(1);
        Cut { outer: 1, extent: self.reference.len() / inner, inner }
    }

    /// The position of a token.
    pub(super) fn position(&self, token: usize) -> i64 {
        match self.positions.get(token) {
            Some(&position) if self.positions.len() == self.extent(Axis::Token) => position.into(),
            _ => token as i64,
        }
    }

    fn extent(&self, axis: Axis) -> usize {
        self.axes.iter().position(|&a| a == axis).map_or(0, |at| self.shape[at])
    }

    /// The index of an element, outermost first.
    pub(super) fn index(&self, mut flat: usize) -> Vec<usize> {
        let mut index = self.shape.clone();
        for place in index.iter_mut().rev() {
            let extent = (*place).max(1);
            *place = flat % extent;
            flat /= extent;
        }
        index
    }
}

/// A way to cut a tensor into parts: part i holds the elements (o, i, k).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cut {
    pub(super) outer: usize,
    pub(super) extent: usize,
    pub(super) inner: usize,
}

impl Cut {
    pub(super) fn at(&self, o: usize, i: usize, k: usize) -> usize {
        (o * self.extent + i) * self.inner + k
    }

    /// Where an element is: (o, i, k).
    pub(super) fn place(&self, flat: usize) -> (usize, usize, usize) {
        let (row, k) = (flat / self.inner, flat % self.inner);
        (row / self.extent, row % self.extent, k)
    }

    /// Elements of a part.
    pub(super) fn part_len(&self) -> usize {
        self.outer * self.inner
    }

    /// Sums of `f(x, y)` over each part.
    pub(super) fn sums<const N: usize>(
        &self,
        pair: &Pair<'_>,
        f: impl Fn(f64, f64) -> [f64; N],
    ) -> Vec<[f64; N]> {
        let mut sums = vec![[0.0; N]; self.extent];
        for (row, (x, y)) in pair.reference.chunks(self.inner).zip(pair.actual.chunks(self.inner)).enumerate()
        {
            let sum = &mut sums[row % self.extent];
            for (&x, &y) in x.iter().zip(y) {
                let terms = f(x.into(), y.into());
                sum.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
            }
        }
        sums
    }
}

/// 0 for equal infinities, such as a mask.
pub(super) fn squared_distance(x: f32, y: f64) -> f64 {
    let x = f64::from(x);
    if x == y { 0.0 } else { (y - x) * (y - x) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair<'a>(x: &'a [f32], y: &'a [f32], shape: &[usize]) -> Pair<'a> {
        Pair::new(x, Values::F32(y), shape).unwrap()
    }

    #[test]
    fn parts_are_outer_part_inner() {
        let x = [0.0; 12];
        let p = pair(&x, &x, &[2, 3, 2]);
        let cut = p.cut_of(Axis::Head).unwrap();
        assert_eq!((cut.outer, cut.extent, cut.inner), (2, 3, 2));
        assert_eq!((cut.at(1, 2, 1), cut.place(11)), (11, (1, 2, 1)));
        assert_eq!((p.rows().extent, p.index(9)), (6, vec![1, 1, 1]));
        let y = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0];
        assert_eq!(cut.sums(&pair(&x, &y, &[2, 3, 2]), |_, y| [y]), [[4.0], [8.0], [12.0]]);
    }

    #[test]
    fn what_explains_leaves_a_tenth_of_the_error_and_would_pass() {
        // error 2^2 + 2^2 = 8; of it at most 0.08 may be left, and 1e-6 of |T(x)|^2
        let (x, y) = ([1.0, 1.0], [3.0, 3.0]);
        let p = pair(&x, &y, &[2]);
        assert_eq!(p.explained(0, |_| 3.0), Some(1.0));
        assert_eq!(p.explained(0, |_| 2.7), None); // 0.18 is left
        assert_eq!(p.explained(0, |_| 2.9), None); // 0.02 is left: enough of the error, and it would not pass
        assert!(p.explained(0, |_| 2.99999).is_some());
        assert_eq!(p.explained(0, |_| 2.999), None); // two elements of noise would leave 2e-6 / 8 too often
        assert_eq!(p.explained(2, |_| 3.0), None); // two free numbers fit any two
        assert_eq!(p.explained(0, |_| f64::NAN), None);
    }

    #[test]
    fn counts_that_disagree_are_errors() {
        assert!(Pair::new(&[1.0], Values::F32(&[1.0, 2.0]), &[1]).is_err());
        assert!(Pair::new(&[1.0], Values::F32(&[1.0]), &[2]).is_err());
        assert!(Pair::new(&[], Values::F32(&[]), &[usize::MAX, 2, 0]).is_err());
    }

    #[test]
    fn a_limit_is_never_wider_than_the_cumulative_one() {
        let x = [2.0, 0.0];
        let p = pair(&x, &x, &[2]);
        assert_eq!(p.clone().with_limit(f64::INFINITY).limit, CUMULATIVE_RELATIVE_L2);
        assert_eq!(p.clone().with_limit(f64::NAN).limit, CUMULATIVE_RELATIVE_L2);
        assert_eq!(p.clone().with_limits(&[6e-6, 8e-6]).limit, 5e-6); // 1e-5 / 2
        assert_eq!(p.with_limit(0.0).limit, ROUNDING);
    }
}
