//! Errors at the edges of chunks of tokens: at the first or the last ones of every chunk, or from a boundary on.

use super::pair::Pair;
use super::wrong_parts::wrong_tokens;
use super::{Finding, Shape};

/// Errors at the edges of chunks.
pub(super) struct ChunkEdges;

/// The chunk of the delta net's matrices, CS in llama.cpp's build_delta_net_chunking.
const CHUNK: usize = 64;
/// Widest edge: the taps of the convolution.
const EDGE: usize = 4;

impl Shape for ChunkEdges {
    fn name(&self) -> &'static str {
        "chunk_edges"
    }

    fn find(&self, pair: &Pair<'_>) -> Option<Finding> {
        let wrong = wrong_tokens(pair)?;
        let n = wrong.extent;
        let sizes = pair.chunks.iter().copied().chain([CHUNK, 32, 16, 128, 256, 512]);
        // There must be a boundary, and a chunk must be wider than both of its edges.
        let words = sizes
            .filter(|&chunk| chunk < n && (chunk > 2 * EDGE || pair.chunks.contains(&chunk)))
            .find_map(|chunk| {
                let is_exactly = |is_in: &dyn Fn(usize) -> bool| {
                    (0..n).filter(|&t| is_in(t)).eq(wrong.parts.iter().copied())
                };
                for edge in 1..=EDGE.min(chunk - 1) {
                    let tokens = if edge == 1 { "token".to_owned() } else { format!("{edge} tokens") };
                    // The first chunk may have nothing in front of it to be wrong about.
                    if is_exactly(&|t| t % chunk < edge) || is_exactly(&|t| t >= chunk && t % chunk < edge) {
                        return Some(format!("an error only at the first {tokens} of each chunk of {chunk}"));
                    }
                    let last = |t: usize| t % chunk + edge >= chunk;
                    if is_exactly(&last) || is_exactly(&|t| last(t) || t + edge >= n) {
                        return Some(format!("an error only at the last {tokens} of each chunk of {chunk}"));
                    }
                }
                let from = wrong.from()?;
                let is_boundary = from > 0 && from.is_multiple_of(chunk);
                is_boundary.then(|| format!("an error from token {from} on, a boundary of chunks of {chunk}"))
            })?;
        Some(Finding::verified(self, words, wrong.explains))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::noise;
    use super::*;
    use crate::tensor::Values;

    fn found(chunks: &[usize], is_wrong: impl Fn(usize) -> bool) -> Option<String> {
        let x = noise(520, 10);
        let y: Vec<f32> =
            x.iter().enumerate().map(|(i, &x)| if is_wrong(i / 4) { x + 1.0 } else { x }).collect();
        let pair = Pair::new(&x, Values::F32(&y), &[130, 4]).unwrap().with_chunks(chunks);
        ChunkEdges.find(&pair).map(|finding| finding.words)
    }

    #[test]
    fn edges_and_boundaries() {
        let first = found(&[], |t| t % 64 < 3).unwrap();
        assert_eq!(first, "an error only at the first 3 tokens of each chunk of 64");
        let behind = found(&[], |t| t == 64 || t == 128).unwrap();
        assert_eq!(behind, "an error only at the first token of each chunk of 64");
        let last = found(&[], |t| t % 64 == 63).unwrap();
        assert_eq!(last, "an error only at the last token of each chunk of 64");
        let from = found(&[], |t| t >= 64).unwrap();
        assert_eq!(from, "an error from token 64 on, a boundary of chunks of 64");
        let ubatch = found(&[50], |t| t >= 50).unwrap();
        assert_eq!(ubatch, "an error from token 50 on, a boundary of chunks of 50");
    }

    #[test]
    fn other_tokens_are_none() {
        assert_eq!(found(&[], |t| t == 7), None);
        assert_eq!(found(&[], |t| t >= 65), None);
        assert_eq!(found(&[], |t| t % 64 == 0 || t == 7), None);
    }
}
