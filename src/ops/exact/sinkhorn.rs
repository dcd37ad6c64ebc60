//! Sinkhorn's iterations on a matrix of positive numbers, and how far a rounding on the way carries to the result.

/// Streams of a hyper-connection; ggml knows no other number here.
pub(super) const HC: usize = 4;

/// `[HC, HC]`
pub(super) type Matrix = [f64; HC * HC];

/// What is normalised together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Group {
    Row,
    Column,
}

impl Group {
    /// What is normalised in `n_iter` iterations: columns, then rows and columns.
    pub(super) fn sequence(n_iter: usize) -> impl Iterator<Item = Group> {
        let further = (1..n_iter).flat_map(|_| [Group::Row, Group::Column]);
        std::iter::once(Group::Column).chain(further)
    }

    /// The places of each group, in order.
    pub(super) fn all(self) -> [[usize; HC]; HC] {
        std::array::from_fn(|group| {
            std::array::from_fn(|member| match self {
                Group::Row => group * HC + member,
                Group::Column => member * HC + group,
            })
        })
    }

    /// Each element over the sum of its group and `eps`.
    pub(super) fn normalised(self, m: &Matrix, eps: f64) -> Matrix {
        let mut normalised = *m;
        for members in self.all() {
            let sum = members.iter().fold(eps, |sum, &at| sum + m[at]);
            members.iter().for_each(|&at| normalised[at] /= sum);
        }
        normalised
    }
}

/// How the result moves with the matrix at a place on the way; it goes from the result backwards.
pub(super) struct Sensitivity {
    /// `[result, here]`: relative to both.
    pub(super) jacobian: [Matrix; HC * HC],
    /// Of each element of the result, the sum of the squares of what roundings behind this place make of it.
    squares: Matrix,
}

impl Sensitivity {
    /// Nothing is behind the result.
    pub(super) fn of_the_result() -> Sensitivity {
        let identity = std::array::from_fn(|i| std::array::from_fn(|j| if i == j { 1.0 } else { 0.0 }));
        Sensitivity { jacobian: identity, squares: [0.0; HC * HC] }
    }

    /// Every element has been rounded by its relative size.
    pub(super) fn round(&mut self, sizes: &Matrix) {
        for (square, row) in self.squares.iter_mut().zip(&self.jacobian) {
            *square += row.iter().zip(sizes).map(|(j, size)| (j * size).powi(2)).sum::<f64>();
        }
    }

    /// Every group has been multiplied by a number with so many roundings.
    pub(super) fn round_shared(&mut self, group: Group, roundings: f64) {
        for (square, row) in self.squares.iter_mut().zip(&self.jacobian) {
            let together = group.all().map(|members| members.iter().map(|&at| row[at]).sum::<f64>().powi(2));
            *square += roundings * together.iter().sum::<f64>();
        }
    }

    /// Goes to the place in front of a normalisation that gave `shares`.
    pub(super) fn before(&mut self, group: Group, shares: &Matrix) {
        for row in &mut self.jacobian {
            for members in group.all() {
                let together: f64 = members.iter().map(|&at| row[at]).sum();
                members.iter().for_each(|&at| row[at] -= shares[at] * together);
            }
        }
    }

    /// Goes to the place in front of an addition, in whose results the elements are these parts.
    pub(super) fn scale(&mut self, parts: &Matrix) {
        for row in &mut self.jacobian {
            row.iter_mut().zip(parts).for_each(|(j, part)| *j *= part);
        }
    }

    /// The size of the error of each element of the result, relative to it, in units of u.
    pub(super) fn errors(&self) -> Matrix {
        self.squares.map(f64::sqrt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_normalised_in_turn() {
        let m: Matrix = std::array::from_fn(|i| (i + 1) as f64);
        assert_eq!(Group::Row.normalised(&m, 0.0)[..2], [1.0 / 10.0, 2.0 / 10.0]);
        assert_eq!(Group::Column.normalised(&m, 2.0)[..2], [1.0 / 30.0, 2.0 / 34.0]);
        let sequence: Vec<Group> = Group::sequence(2).collect();
        assert_eq!(sequence, [Group::Column, Group::Row, Group::Column]);
    }

    #[test]
    fn a_shared_factor_is_normalised_away() {
        let shares = Group::Row.normalised(&[1.0; 16], 0.0);
        let mut sensitivity = Sensitivity::of_the_result();
        sensitivity.round(&[3.0; 16]);
        assert_eq!(sensitivity.errors(), [3.0; 16]);
        sensitivity.before(Group::Row, &shares);
        sensitivity.round_shared(Group::Row, 5.0);
        assert_eq!(sensitivity.errors(), [3.0; 16]);
        // one element alone: 3/4, and three times -1/4
        sensitivity.round(&[2.0; 16]);
        assert_eq!(sensitivity.errors(), [f64::sqrt(9.0 + 4.0 * 0.75); 16]);
    }
}
