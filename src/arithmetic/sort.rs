//! The order that ggml's `std::sort` and `std::partial_sort` leave equal elements in: that of libstdc++, which every build of llama.cpp
//! by gcc has, and by clang on Linux. Other libraries may leave them in another.
//!
//! Up to [`FEW`] elements are inserted one by one, so that equal ones stay as they were; more are parted around a median of three, and a
//! heap takes over where that goes on too long. A partial sort takes a heap from the start.

/// Elements up to which they are inserted one by one (`_S_threshold`).
const FEW: usize = 16;

/// Sorts indices so that none `comes_before` the one in front of it; that must be a strict order, equal where neither comes first.
pub fn sort(all: &mut [usize], comes_before: impl Fn(usize, usize) -> bool) {
    let sorter = Sorter { comes_before };
    let Some(log2) = all.len().checked_ilog2() else { return };
    sorter.part(all, 2 * log2);
    let few = all.len().min(FEW);
    sorter.insert(&mut all[..few], 1);
    // What lies beyond is no farther than FEW from its place, so that it never passes the front.
    sorter.insert(all, few);
}

/// Sorts the first `n` of what all sorted indices would be to the front; the others are left in any order.
pub fn partial_sort(all: &mut [usize], n: usize, comes_before: impl Fn(usize, usize) -> bool) {
    Sorter { comes_before }.by_heap(all, n);
}

struct Sorter<F> {
    comes_before: F,
}

impl<F: Fn(usize, usize) -> bool> Sorter<F> {
    fn before(&self, a: usize, b: usize) -> bool {
        (self.comes_before)(a, b)
    }

    /// Parts what is longer than [`FEW`] until nothing is, the right part of each first.
    fn part(&self, all: &mut [usize], depth: u32) {
        let (mut all, mut depth) = (all, depth);
        while all.len() > FEW {
            if depth == 0 {
                let n = all.len();
                return self.by_heap(all, n);
            }
            depth -= 1;
            let cut = self.cut(all);
            let (left, right) = std::mem::take(&mut all).split_at_mut(cut);
            self.part(right, depth);
            all = left;
        }
    }

    /// Moves the median of second, middle and last to the front, and parts the others around it.
    fn cut(&self, all: &mut [usize]) -> usize {
        let (second, middle, last) = (1, all.len() / 2, all.len() - 1);
        let [a, b, c] = [second, middle, last].map(|at| all[at]);
        let median = if self.before(a, b) {
            if self.before(b, c) {
                middle
            } else if self.before(a, c) {
                last
            } else {
                second
            }
        } else if self.before(a, c) {
            second
        } else if self.before(b, c) {
            last
        } else {
            middle
        };
        all.swap(0, median);
        let pivot = all[0];
        let (mut left, mut right) = (1, all.len());
        // The median stops both from leaving what is to be parted.
        loop {
            while self.before(all[left], pivot) {
                left += 1;
            }
            right -= 1;
            while self.before(pivot, all[right]) {
                right -= 1;
            }
            if left >= right {
                return left;
            }
            all.swap(left, right);
            left += 1;
        }
    }

    /// Inserts each from `first` on into what lies in front of it, behind its equals.
    fn insert(&self, all: &mut [usize], first: usize) {
        for i in first..all.len() {
            let own = all[i];
            let mut at = i;
            while at > 0 && self.before(own, all[at - 1]) {
                all[at] = all[at - 1];
                at -= 1;
            }
            all[at] = own;
        }
    }

    fn by_heap(&self, all: &mut [usize], n: usize) {
        if n == 0 {
            return;
        }
        for parent in (0..n / 2).rev() {
            let own = all[parent];
            self.sift(&mut all[..n], parent, own);
        }
        for i in n..all.len() {
            if self.before(all[i], all[0]) {
                let own = all[i];
                all[i] = all[0];
                self.sift(&mut all[..n], 0, own);
            }
        }
        for end in (1..n).rev() {
            let own = all[end];
            all[end] = all[0];
            self.sift(&mut all[..end], 0, own);
        }
    }

    /// Lets the place `top` of a heap, whose last comes first in its children, sink to the bottom, and `own` rise from there.
    fn sift(&self, heap: &mut [usize], top: usize, own: usize) {
        let mut hole = top;
        while 2 * hole + 2 < heap.len() {
            let right = 2 * hole + 2;
            let child = if self.before(heap[right], heap[right - 1]) { right - 1 } else { right };
            heap[hole] = heap[child];
            hole = child;
        }
        if 2 * hole + 1 < heap.len() {
            heap[hole] = heap[2 * hole + 1];
            hole = 2 * hole + 1;
        }
        while hole > top && self.before(heap[(hole - 1) / 2], own) {
            heap[hole] = heap[(hole - 1) / 2];
            hole = (hole - 1) / 2;
        }
        heap[hole] = own;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores of many equals, in a fixed disorder.
    fn scores(n: usize, kinds: usize) -> Vec<usize> {
        (0..n).map(|i| (i * 7919 + i * i * 31) % 104_729 % kinds).collect()
    }

    #[test]
    fn sorted_is_sorted_and_holds_everything() {
        for n in [0, 1, 2, 3, 15, 16, 17, 18, 33, 100, 1000] {
            for kinds in [1, 2, 7, 1000] {
                let of = scores(n, kinds);
                let mut sorted: Vec<usize> = (0..n).collect();
                sort(&mut sorted, |a, b| of[a] > of[b]);
                assert!(sorted.is_sorted_by(|&a, &b| of[a] >= of[b]), "{n} {kinds}");
                for k in [0, 1, 2, n / 3, n].map(|k| k.min(n)) {
                    let mut part: Vec<usize> = (0..n).collect();
                    partial_sort(&mut part, k, |a, b| of[a] > of[b]);
                    let same = |(&a, &b): (&usize, &usize)| of[a] == of[b];
                    assert!(part[..k].iter().zip(&sorted).all(same), "{n} {kinds} {k}");
                    part.sort_unstable();
                    assert!(part.into_iter().eq(0..n));
                }
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..n));
            }
        }
    }

    #[test]
    fn few_equals_stay_as_they_were_and_many_do_not() {
        let sorted = |n: usize| {
            let mut all: Vec<usize> = (0..n).collect();
            sort(&mut all, |_, _| false);
            all
        };
        assert!(sorted(16).into_iter().eq(0..16));
        assert!(!sorted(17).into_iter().eq(0..17));
    }

    #[test]
    fn a_killer_of_medians_is_sorted_by_a_heap() {
        // Every median of three is among the smallest (Musser's sequence).
        let n = 512;
        let k = n / 2;
        let of: Vec<usize> =
            (1..=k).map(|i| if i % 2 == 1 { i } else { k + i - 1 }).chain((1..=k).map(|i| 2 * i)).collect();
        let mut all: Vec<usize> = (0..n).collect();
        sort(&mut all, |a, b| of[a] < of[b]);
        assert!(all.is_sorted_by_key(|&i| of[i]));
    }
}
