//! Which tokens of which sequences an engine holds, and in which cells of its caches: the bookkeeping that every engine has,
//! whatever the caches are.

use std::collections::BTreeMap;

use super::cells::Cells;
use super::{EngineError, Memory, Ubatch};

/// The tokens of all sequences.
pub(super) struct Sequences {
    pub(super) memory: Memory,
    /// Cells of each stream.
    n_ctx: usize,
    /// Tokens run so far, by sequence.
    n_past: BTreeMap<i32, usize>,
    /// By stream; the same in all layers.
    cells: BTreeMap<i32, Cells>,
}

/// The cells of a ubatch's tokens by stream, in the order of the ubatch.
pub(super) type Found = Vec<(i32, Vec<usize>)>;

/// Where the tokens of a ubatch go in the caches, and what they read.
pub(super) struct Placement {
    /// The streams in the order of the ubatch, each with as many tokens.
    pub(super) streams: Vec<StreamPlacement>,
    /// Cells that attention reads.
    pub(super) n_kv: usize,
    /// The sequences in the order of the ubatch, each with as many tokens.
    pub(super) sequences: Vec<i32>,
}

pub(super) struct StreamPlacement {
    pub(super) stream: i32,
    /// The cell of each token.
    pub(super) cells: Vec<usize>,
    /// The cells that each token reads, ascending.
    pub(super) seen: Vec<Vec<usize>>,
}

impl Sequences {
    pub(super) fn new(memory: Memory, n_ctx: usize) -> Sequences {
        Sequences { memory, n_ctx, n_past: BTreeMap::new(), cells: BTreeMap::new() }
    }

    pub(super) fn n_past(&self, sequence: i32) -> usize {
        self.n_past.get(&sequence).copied().unwrap_or(0)
    }

    /// Every sequence that holds tokens, with how many.
    pub(super) fn all(&self) -> impl Iterator<Item = (i32, usize)> + '_ {
        self.n_past.iter().map(|(&sequence, &n_past)| (sequence, n_past))
    }

    pub(super) fn stream_of(&self, sequence: i32) -> i32 {
        if self.memory.kv_unified { 0 } else { sequence }
    }

    /// Whether a sequence has cells in its stream, with those that it has.
    pub(super) fn cells_of(&self, sequence: i32) -> Option<Vec<usize>> {
        self.cells.get(&self.stream_of(sequence)).map(|cells| cells.of(sequence))
    }

    /// Checks a ubatch and finds cells for its tokens. Changes nothing.
    ///
    /// # Errors
    /// If a token, position or sequence is invalid, or a stream has too few cells left.
    pub(super) fn check(&self, ubatch: &Ubatch, n_vocab: usize) -> Result<Found, EngineError> {
        let Ubatch { tokens, positions, sequences, outputs } = ubatch;
        let n = tokens.len();
        if n == 0 || [positions.len(), sequences.len(), outputs.len()] != [n; 3] {
            return Err(EngineError::UbatchSize {
                tokens: n,
                positions: positions.len(),
                sequences: sequences.len(),
                outputs: outputs.len(),
            });
        }
        let runs: Vec<&[i32]> = sequences.chunk_by(|a, b| a == b).collect();
        let mut distinct: Vec<i32> = runs.iter().map(|run| run[0]).collect();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() != runs.len() || runs.iter().any(|run| run.len() != runs[0].len()) {
            return Err(EngineError::Sequences { got: sequences.clone() });
        }
        for (i, &token) in tokens.iter().enumerate() {
            let (position, sequence) = (positions[i], sequences[i]);
            if token as usize >= n_vocab {
                return Err(EngineError::Token { token, position, n_vocab });
            }
            let n_past = self.n_past(sequence) + i % runs[0].len();
            if position != n_past as i64 {
                return Err(EngineError::Position { sequence, got: position, n_past });
            }
        }
        self.find(ubatch)
    }

    /// Free cells for the tokens of a ubatch. Changes nothing.
    ///
    /// # Errors
    /// If a stream has too few.
    pub(super) fn find(&self, ubatch: &Ubatch) -> Result<Found, EngineError> {
        let mut n_tokens: Vec<(i32, usize)> = Vec::new();
        for &sequence in &ubatch.sequences {
            let stream = self.stream_of(sequence);
            match n_tokens.iter_mut().find(|(known, _)| *known == stream) {
                Some((_, n)) => *n += 1,
                None => n_tokens.push((stream, 1)),
            }
        }
        let find = |(stream, n): (i32, usize)| {
            let fresh = Cells::new(self.n_ctx);
            let cells = self.cells.get(&stream).unwrap_or(&fresh);
            let full = || EngineError::ContextFull { needed: cells.used() + n, n_ctx: self.n_ctx };
            Ok((stream, cells.find(n).ok_or_else(full)?))
        };
        n_tokens.into_iter().map(find).collect()
    }

    /// Gives the tokens of a ubatch the cells that were found.
    pub(super) fn place(&mut self, ubatch: &Ubatch, found: Found) -> Placement {
        let tokens: Vec<(i32, i64)> =
            ubatch.sequences.iter().copied().zip(ubatch.positions.iter().copied()).collect();
        let (mut streams, mut n_kv, mut first) = (Vec::new(), 0, 0);
        for (stream, at) in found {
            let own = &tokens[first..first + at.len()];
            first += at.len();
            let cells = self.cells.entry(stream).or_insert_with(|| Cells::new(self.n_ctx));
            cells.put(&at, own.iter().copied());
            n_kv = n_kv.max(cells.n_kv());
            let seen = own.iter().map(|&(sequence, position)| cells.seen_by(sequence, position)).collect();
            streams.push(StreamPlacement { stream, cells: at, seen });
        }
        let mut sequences = ubatch.sequences.clone();
        sequences.dedup();
        Placement { streams, n_kv, sequences }
    }

    /// The tokens of a ubatch have been run.
    pub(super) fn advance(&mut self, sequences: &[i32]) {
        for &sequence in sequences {
            *self.n_past.entry(sequence).or_default() += 1;
        }
    }

    /// A sequence holds this many tokens, which have been placed.
    pub(super) fn holds(&mut self, sequence: i32, n_past: usize) {
        self.n_past.insert(sequence, n_past);
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        let size = self.n_ctx;
        self.cells.values_mut().for_each(|cells| *cells = Cells::new(size));
        self.n_past.clear();
    }

    /// How many tokens of a sequence are left if it is taken back to position `from`, and how many go.
    ///
    /// # Errors
    /// If that many earlier states are not kept: `kept` of them are.
    pub(super) fn taken_back(
        &self,
        sequence: i32,
        from: i64,
        kept: Option<usize>,
    ) -> Result<(usize, usize), EngineError> {
        let n_past = self.n_past(sequence);
        let n_left = usize::try_from(from).unwrap_or(0).min(n_past);
        let n = n_past - n_left;
        match kept.filter(|&kept| n_left > 0 && n > kept) {
            Some(kept) => {
                Err(EngineError::Rollback { sequence, tokens: n, kept, n_rs_seq: self.memory.n_rs_seq })
            }
            None => Ok((n_left, n)),
        }
    }

    /// Takes a sequence back to its first `n_left` tokens.
    pub(super) fn keep_first(&mut self, sequence: i32, n_left: usize) {
        if let Some(cells) = self.cells.get_mut(&self.stream_of(sequence)) {
            cells.remove(sequence, n_left as i64);
        }
        match n_left {
            0 => drop(self.n_past.remove(&sequence)),
            n_left => drop(self.n_past.insert(sequence, n_left)),
        }
    }

    /// Makes an empty sequence hold what another one holds; says which stream must be copied to which for that.
    pub(super) fn copy(&mut self, from: i32, to: i32) -> Option<(i32, i32)> {
        let (source, target) = (self.stream_of(from), self.stream_of(to));
        if source == target {
            self.cells.entry(source).and_modify(|cells| cells.share(from, to));
        } else if let Some(cells) = self.cells.get(&source) {
            self.cells.insert(target, cells.copied(from, to));
        }
        if let Some(&n_past) = self.n_past.get(&from) {
            self.n_past.insert(to, n_past);
        }
        (source != target).then_some((source, target))
    }
}
