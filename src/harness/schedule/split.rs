//! How llama.cpp cuts a batch into ubatches for a model with recurrent states (`llama_batch_allocr::split_equal`,
//! llama-batch.cpp): as many tokens of each sequence, one sequence after the other.

use super::Token;

/// The ubatches of a batch. `sequential` lets only sequences with consecutive numbers run together.
pub(super) fn split_equal(batch: &[Token], n_ubatch: usize, sequential: bool) -> Vec<Vec<Token>> {
    let mut left: Vec<Token> = batch.to_vec();
    let mut ubatches = Vec::new();
    while !left.is_empty() {
        let mut sequences: Vec<i32> = Vec::new();
        for token in &left {
            let follows = sequences.last().is_none_or(|last| !sequential || token.sequence == last + 1);
            if follows && !sequences.contains(&token.sequence) && sequences.len() < n_ubatch.max(1) {
                sequences.push(token.sequence);
            }
        }
        let of = |sequence: i32| left.iter().filter(move |token| token.sequence == sequence);
        let most = sequences.iter().map(|&sequence| of(sequence).count()).min().unwrap_or(0);
        let each = most.min((n_ubatch / sequences.len()).max(1));
        let ubatch: Vec<Token> =
            sequences.iter().flat_map(|&sequence| of(sequence).take(each)).copied().collect();
        left.retain(|token| !ubatch.contains(token));
        ubatches.push(ubatch);
    }
    ubatches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(tokens: &[(i32, i64)]) -> Vec<Token> {
        let token =
            |&(sequence, position): &(i32, i64)| Token { token: 0, position, sequence, output: false };
        tokens.iter().map(token).collect()
    }

    fn sizes(tokens: &[(i32, i64)], n_ubatch: usize, sequential: bool) -> Vec<Vec<(i32, i64)>> {
        let ubatches = split_equal(&batch(tokens), n_ubatch, sequential);
        ubatches.iter().map(|u| u.iter().map(|t| (t.sequence, t.position)).collect()).collect()
    }

    #[test]
    fn sequences_take_as_many_tokens_each() {
        let both = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)];
        assert_eq!(sizes(&both, 8, true), [vec![(0, 0), (0, 1), (1, 0), (1, 1)], vec![(0, 2)]]);
        assert_eq!(sizes(&both, 2, true), [vec![(0, 0), (1, 0)], vec![(0, 1), (1, 1)], vec![(0, 2)]]);
    }

    #[test]
    fn streams_take_consecutive_sequences_only() {
        let apart = [(0, 0), (2, 0)];
        assert_eq!(sizes(&apart, 8, true), [vec![(0, 0)], vec![(2, 0)]]);
        assert_eq!(sizes(&apart, 8, false), [vec![(0, 0), (2, 0)]]);
    }
}
