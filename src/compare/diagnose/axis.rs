//! What an axis of a tensor counts.

/// What an axis of a tensor counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Axis {
    /// Sequences, or anything outside of tokens.
    Sequence,
    /// Tokens of a ubatch.
    Token,
    /// Attention heads, or heads of the delta net.
    Head,
    /// The elements of a head or of a row.
    Channel,
    /// KV cells.
    Cell,
    /// Something else: the rows of a state, the columns of a convolution's window.
    Other,
}

impl Axis {
    /// What a tensor's axes usually count, outermost first: `[tokens, heads, channels]`, `[tokens, channels]`.
    pub fn usual(rank: usize) -> Vec<Axis> {
        let inner: &[Axis] = match rank {
            0 | 1 => &[Axis::Channel],
            2 => &[Axis::Token, Axis::Channel],
            _ => &[Axis::Token, Axis::Head, Axis::Channel],
        };
        let outer = rank.saturating_sub(inner.len());
        [vec![Axis::Sequence; outer], inner.to_vec()].concat()
    }

    /// One of it.
    pub fn noun(self) -> &'static str {
        match self {
            Axis::Sequence => "sequence",
            Axis::Token => "token",
            Axis::Head => "head",
            Axis::Channel => "channel",
            Axis::Cell => "cell",
            Axis::Other => "place",
        }
    }

    /// The axis with this noun.
    pub fn from_noun(noun: &str) -> Option<Axis> {
        [Axis::Sequence, Axis::Token, Axis::Head, Axis::Channel, Axis::Cell, Axis::Other]
            .into_iter()
            .find(|axis| axis.noun() == noun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_axis_is_channels() {
        assert_eq!(Axis::usual(1), [Axis::Channel]);
        assert_eq!(Axis::usual(2), [Axis::Token, Axis::Channel]);
        assert_eq!(Axis::usual(4), [Axis::Sequence, Axis::Token, Axis::Head, Axis::Channel]);
        assert_eq!(Axis::from_noun("head"), Some(Axis::Head));
        assert_eq!(Axis::from_noun("heads"), None);
    }
}
