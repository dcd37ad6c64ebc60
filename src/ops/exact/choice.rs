//! What an operator chose by scores, against what is right to choose: indices of equal scores may stand for each other, and so may
//! those whose scores are nearer than what is known of them.

use std::cmp::Ordering;

use crate::tensor::Values;

/// What rows of scores allow to be chosen.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Choice {
    /// The scores, packed, of which each row is chosen from.
    pub scores: Vec<f64>,
    /// How far each score may be from the one that was chosen by; empty for nothing.
    pub slack: Vec<f64>,
    /// Scores in a row.
    pub width: usize,
    /// Indices that are chosen of a row.
    pub chosen: usize,
    /// What the chosen indices stand for.
    pub kind: Chosen,
    /// Which of all chosen indices are shown, as flat numbers; each is one element of the result.
    pub shown: Vec<usize>,
}

/// What indices that were chosen stand for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Chosen {
    /// An order, the smallest score first.
    Ascending,
    /// An order, the greatest score first.
    #[default]
    Descending,
    /// The set of those with the greatest scores, in any order.
    Greatest,
}

/// The indices that are right, as near to those that were chosen as can be.
#[derive(Clone, PartialEq, Debug)]
pub struct Settled {
    /// What was chosen wherever that is right; elsewhere an index that is.
    pub values: Vec<f64>,
    /// Elements that are right and not the index that comes first among equals.
    pub ties: u64,
}

impl Choice {
    /// Every index of `rows` rows, none of whose scores is off.
    pub(super) fn new(scores: Vec<f64>, width: usize, chosen: usize, kind: Chosen) -> Choice {
        let rows = scores.len().checked_div(width).unwrap_or(0);
        Choice { scores, slack: Vec::new(), width, chosen, kind, shown: (0..rows * chosen).collect() }
    }

    /// The same with a part of the elements: those that `pick` takes of numbers, one per element.
    ///
    /// # Errors
    /// If it takes none.
    pub fn showing<E>(&self, pick: impl Fn(&[f64]) -> Result<Vec<f64>, E>) -> Result<Choice, E> {
        let shown: Vec<f64> = self.shown.iter().map(|&at| at as f64).collect();
        Ok(Choice { shown: pick(&shown)?.into_iter().map(|at| at as usize).collect(), ..self.clone() })
    }

    /// What comes first in each row, equals in the order of their indices.
    pub fn first(&self) -> Vec<f64> {
        let ranked = self.rows().flat_map(|row| row.ranked.into_iter().take(self.chosen)).collect::<Vec<_>>();
        self.shown.iter().map(|&at| ranked.get(at).map_or(f64::NAN, |&index| index as f64)).collect()
    }

    /// Holds what was chosen against what is right.
    pub fn settle(&self, chosen: Values<'_>) -> Settled {
        let mut settled = Settled { values: vec![f64::NAN; self.shown.len()], ties: 0 };
        let mut elements = self.shown.iter().enumerate().peekable();
        for (number, row) in self.rows().enumerate() {
            let mut places = Vec::new();
            while let Some((element, at)) = elements.next_if(|(_, at)| *at / self.chosen == number) {
                let rank = at % self.chosen;
                settled.values[element] = row.ranked[rank] as f64;
                places.push((element, rank));
            }
            let of = |element: usize| chosen.get(element).and_then(|index| row.index(index));
            match self.kind {
                Chosen::Greatest => row.settle_set(self.chosen, &places, of, &mut settled),
                _ => row.settle_order(&places, of, &mut settled),
            }
        }
        settled
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let slack = |number: usize| self.slack.get(number * self.width..).unwrap_or(&[]);
        self.scores.chunks_exact(self.width.max(1)).enumerate().map(move |(number, scores)| {
            let mut ranked: Vec<usize> = (0..scores.len()).collect();
            let order = |a: f64, b: f64| match self.kind {
                Chosen::Ascending => a.partial_cmp(&b),
                _ => b.partial_cmp(&a),
            };
            ranked.sort_by(|&a, &b| order(scores[a], scores[b]).unwrap_or(Ordering::Equal));
            let slack = slack(number);
            let slack = &slack[..slack.len().min(scores.len())];
            Row { scores, slack, widest: slack.iter().copied().fold(0.0, f64::max), ranked }
        })
    }
}

/// One row of scores.
struct Row<'a> {
    scores: &'a [f64],
    slack: &'a [f64],
    /// The greatest slack.
    widest: f64,
    /// All indices, the first that is to be chosen in front.
    ranked: Vec<usize>,
}

impl Row<'_> {
    /// A value as an index of this row; none if it is none.
    fn index(&self, value: f64) -> Option<usize> {
        (value >= 0.0 && value < self.scores.len() as f64 && value.fract() == 0.0).then_some(value as usize)
    }

    /// Whether an index may stand where `right` comes by the scores. A score that is off by its slack, among others that are off by
    /// theirs, takes the place of one that is off by no more than the sum of its own and the greatest slack of the row.
    fn stands_for(&self, index: usize, right: usize) -> bool {
        let (own, right) = (self.scores[index], self.scores[right]);
        let slack = self.slack.get(index).copied().unwrap_or(0.0) + self.widest;
        own == right || (own - right).abs() <= slack
    }

    /// An order: each place has an index of its own whose score stands for the one of this rank.
    fn settle_order(
        &self,
        places: &[(usize, usize)],
        of: impl Fn(usize) -> Option<usize>,
        settled: &mut Settled,
    ) {
        let mut taken = vec![false; self.scores.len()];
        for &(element, rank) in places {
            let right = self.ranked[rank];
            let Some(index) = of(element).filter(|&index| !taken[index] && self.stands_for(index, right))
            else {
                continue;
            };
            taken[index] = true;
            settled.values[element] = index as f64;
            settled.ties += u64::from(index != right);
        }
    }

    /// A set of `chosen`: the indices, the greatest first, stand for the ranks. Where only some of the places are shown, each may
    /// stand for a rank as far behind as places are missing.
    fn settle_set(
        &self,
        chosen: usize,
        places: &[(usize, usize)],
        of: impl Fn(usize) -> Option<usize>,
        settled: &mut Settled,
    ) {
        let mut rank_of = vec![0; self.scores.len()];
        self.ranked.iter().enumerate().for_each(|(rank, &index)| rank_of[index] = rank);
        let mut taken = vec![false; self.scores.len()];
        let mut own: Vec<(usize, usize)> = Vec::new();
        let mut wrong = Vec::new();
        for &(element, _) in places {
            match of(element).filter(|&index| !std::mem::replace(&mut taken[index], true)) {
                Some(index) => own.push((rank_of[index], element)),
                None => wrong.push(element),
            }
        }
        own.sort_unstable();
        let missing = chosen - places.len();
        for (rank, &(own, element)) in own.iter().enumerate() {
            let index = self.ranked[own];
            let last = self.ranked[rank + missing];
            if own <= rank + missing || self.stands_for(index, last) {
                settled.values[element] = index as f64;
                settled.ties += u64::from(own >= chosen);
            } else {
                taken[index] = false;
                wrong.push(element);
            }
        }
        let mut left = self.ranked.iter().take(chosen).filter(|&&index| !taken[index]);
        for element in wrong {
            settled.values[element] = left.next().map_or(f64::NAN, |&index| index as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(kind: Chosen, scores: &[f64], chosen: &[f64]) -> (Vec<f64>, u64) {
        let choice = Choice::new(scores.to_vec(), scores.len(), chosen.len(), kind);
        let Settled { values, ties } = choice.settle(Values::F64(chosen));
        (values, ties)
    }

    #[test]
    fn equal_scores_may_come_in_any_order() {
        let scores = [1.0, 3.0, 1.0, 2.0];
        assert_eq!(
            settled(Chosen::Descending, &scores, &[1.0, 3.0, 0.0, 2.0]),
            (vec![1.0, 3.0, 0.0, 2.0], 0)
        );
        assert_eq!(
            settled(Chosen::Descending, &scores, &[1.0, 3.0, 2.0, 0.0]),
            (vec![1.0, 3.0, 2.0, 0.0], 2)
        );
        assert_eq!(settled(Chosen::Ascending, &scores, &[2.0, 0.0, 3.0, 1.0]), (vec![2.0, 0.0, 3.0, 1.0], 2));
        let masked = [f64::NEG_INFINITY, 3.0, f64::NEG_INFINITY];
        assert_eq!(settled(Chosen::Descending, &masked, &[1.0, 2.0, 0.0]).1, 2);
    }

    #[test]
    fn another_order_is_wrong_where_it_is() {
        let scores = [1.0, 3.0, 2.0];
        assert_eq!(settled(Chosen::Descending, &scores, &[2.0, 1.0, 0.0]), (vec![1.0, 2.0, 0.0], 0));
        // the same index twice, none, and one that there is not
        assert_eq!(settled(Chosen::Descending, &[1.0; 3], &[1.0, 1.0, 2.0]).0, [1.0, 1.0, 2.0]);
        for wrong in [f64::NAN, -1.0, 3.0, 0.5] {
            assert_eq!(settled(Chosen::Descending, &scores, &[1.0, 2.0, wrong]).0, [1.0, 2.0, 0.0]);
        }
    }

    #[test]
    fn a_set_has_no_order_and_leaves_out_no_greater_score() {
        let scores = [5.0, 1.0, 4.0, 4.0, 3.0];
        let set = |chosen: &[f64]| settled(Chosen::Greatest, &scores, chosen);
        assert_eq!(set(&[2.0, 0.0]), (vec![2.0, 0.0], 0));
        assert_eq!(set(&[0.0, 3.0]), (vec![0.0, 3.0], 1));
        // 5 is left out, and both of the equal ones are taken: one of them is right
        assert_eq!(set(&[3.0, 2.0]), (vec![3.0, 0.0], 1));
        assert_eq!(set(&[0.0, 4.0]), (vec![0.0, 2.0], 0));
        assert_eq!(set(&[0.0, 0.0]), (vec![0.0, 2.0], 0));
    }

    #[test]
    fn a_near_tie_is_one_within_what_is_known_of_the_scores() {
        let near = |slack: f64| {
            let slack = vec![slack; 3];
            let choice = Choice { slack, ..Choice::new(vec![1.0, 1.25, 8.0], 3, 3, Chosen::Descending) };
            let Settled { values, ties } = choice.settle(Values::F32(&[2.0, 0.0, 1.0]));
            (values, ties)
        };
        assert_eq!(near(0.125), (vec![2.0, 0.0, 1.0], 2));
        assert_eq!(near(0.0625), (vec![2.0, 1.0, 0.0], 0));
    }

    #[test]
    fn a_part_of_what_was_chosen_is_judged_alone() {
        let scores = vec![1.0, 3.0, 1.0, 2.0, 9.0, 9.0, 9.0, 0.0];
        let choice = Choice { shown: vec![0, 1, 4, 5], ..Choice::new(scores, 4, 4, Chosen::Descending) };
        assert_eq!(choice.first(), [1.0, 3.0, 0.0, 1.0]);
        let Settled { values, ties } = choice.settle(Values::F64(&[1.0, 0.0, 2.0, 1.0]));
        assert_eq!((values, ties), (vec![1.0, 3.0, 2.0, 1.0], 1));
        let set = Choice { shown: vec![1], ..Choice::new(vec![1.0, 3.0, 2.0], 3, 2, Chosen::Greatest) };
        assert_eq!([0.0, 1.0, 2.0].map(|index| set.settle(Values::F64(&[index])).values[0]), [1.0, 1.0, 2.0]);
    }
}
