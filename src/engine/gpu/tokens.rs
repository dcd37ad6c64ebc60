//! What kernels read of a step besides activations: token ids, positions, cells and slots, in one buffer that is written once a step.

use std::ops::Range;

use super::slots::SequenceSlots;
use super::state::State;
use super::{Buffer, Device, GpuError, Part};
use crate::engine::Ubatch;
use crate::engine::sequences::{Found, Placement};

/// The tokens of a step and where they lie.
pub(super) struct Tokens {
    pub(super) n_tokens: usize,
    /// By sequence, in the order of the ubatch.
    pub(super) slots: Vec<SequenceSlots>,
    pub(super) placement: Placement,
    /// By stream, as in the placement.
    pub(super) streams: Vec<StreamTokens>,
    ints: Buffer<i32>,
    at: Sections,
}

/// The tokens of one stream.
pub(super) struct StreamTokens {
    /// Of the ubatch.
    pub(super) tokens: Range<usize>,
    /// Of the ubatch.
    pub(super) sequences: Range<usize>,
    /// Where the cells of its sequences are listed, unless each has those from 0 on.
    list: Option<Range<usize>>,
}

/// Parts of the buffer.
#[derive(Default)]
struct Sections {
    ids: Range<usize>,
    positions: Range<usize>,
    outputs: Range<usize>,
    cells: Range<usize>,
    slots: Range<usize>,
    conv_from: Range<usize>,
    conv_to: Range<usize>,
    n_seen: Range<usize>,
    first_of_token: Range<usize>,
    n_past: Range<usize>,
    first_of_sequence: Range<usize>,
}

/// Puts sections one behind the other.
#[derive(Default)]
struct Writer(Vec<i32>);

impl Writer {
    fn section(&mut self, values: impl IntoIterator<Item = usize>) -> Range<usize> {
        let start = self.0.len();
        self.0.extend(values.into_iter().map(|value| i32::try_from(value).expect("sizes are below 2^31")));
        start..self.0.len()
    }
}

impl Tokens {
    /// Places the tokens of a checked ubatch. `ints` is a buffer to write to if it is as large as is needed, so that what was
    /// recorded with it finds the new numbers there.
    pub(super) fn place(
        device: &Device,
        state: &mut State,
        ubatch: &Ubatch,
        found: Found,
        ints: Option<Buffer<i32>>,
    ) -> Result<Tokens, GpuError> {
        state.reserve_streams(device, found.iter().map(|&(stream, _)| stream))?;
        let n_tokens = ubatch.tokens.len();
        let mut sequences = ubatch.sequences.clone();
        sequences.dedup();
        let of_sequence = n_tokens / sequences.len();
        let n_past: Vec<usize> = sequences.iter().map(|&sequence| state.sequences.n_past(sequence)).collect();
        let kept = state.sequences.memory.n_rs_seq.min(of_sequence);
        let slots: Vec<SequenceSlots> = sequences
            .iter()
            .map(|&sequence| state.slots_for_step(device, sequence, kept))
            .collect::<Result<_, _>>()?;
        let placement = state.sequences.place(ubatch, found);

        let mut writer = Writer::default();
        let mut at = Sections {
            ids: writer.section(ubatch.tokens.iter().map(|&id| id as usize)),
            positions: writer.section(ubatch.positions.iter().map(|&position| position as usize)),
            outputs: writer.section((0..n_tokens).filter(|&t| ubatch.outputs[t])),
            cells: writer.section(placement.streams.iter().flat_map(|placed| placed.cells.iter().copied())),
            slots: writer.section(slots.iter().map(|slots| slots.before.s)),
            conv_from: writer.section(slots.iter().map(|slots| slots.before.conv)),
            conv_to: writer.section(slots.iter().map(|slots| slots.conv_after)),
            ..Sections::default()
        };
        let n_seen = placement.streams.iter().flat_map(|placed| placed.seen.iter().map(Vec::len));
        at.n_seen = writer.section(n_seen);
        at.n_past = writer.section(n_past.iter().copied());
        let mut streams = Vec::new();
        let mut firsts = Vec::new();
        let (mut token, mut sequence) = (0, 0);
        for placed in &placement.streams {
            let tokens = token..token + placed.cells.len();
            let own = sequence..sequence + tokens.len() / of_sequence;
            (token, sequence) = (tokens.end, own.end);
            let all: Vec<Vec<usize>> = sequences[own.clone()]
                .iter()
                .map(|&sequence| state.sequences.cells_of(sequence).unwrap_or_default())
                .collect();
            let is_plain = all.iter().all(|cells| cells.iter().copied().eq(0..cells.len()));
            let mut first = 0;
            for cells in &all {
                firsts.push(first);
                first += if is_plain { 0 } else { cells.len() };
            }
            let listed = all.iter().flatten().copied();
            streams.push(StreamTokens {
                tokens,
                sequences: own,
                list: (!is_plain).then(|| writer.section(listed)),
            });
        }
        let of_tokens = (0..n_tokens).map(|token| firsts[token / of_sequence]);
        at.first_of_token = writer.section(of_tokens.collect::<Vec<_>>());
        at.first_of_sequence = writer.section(firsts.iter().copied());
        let ints = match ints.filter(|ints| ints.len() == writer.0.len()) {
            Some(mut ints) => {
                device.write(&mut ints.all_mut(), &writer.0)?;
                ints
            }
            None => device.upload(&writer.0)?,
        };
        Ok(Tokens { n_tokens, slots, placement, streams, ints, at })
    }

    /// Tokens of each sequence.
    pub(super) fn of_sequence(&self) -> usize {
        self.n_tokens / self.slots.len()
    }

    /// Gives the buffer back.
    pub(super) fn into_ints(self) -> Buffer<i32> {
        self.ints
    }

    pub(super) fn ids(&self) -> Part<'_, i32> {
        self.ints.part(self.at.ids.clone())
    }

    pub(super) fn positions(&self) -> Part<'_, i32> {
        self.ints.part(self.at.positions.clone())
    }

    /// The tokens whose logits are wanted.
    pub(super) fn outputs(&self) -> Part<'_, i32> {
        self.ints.part(self.at.outputs.clone())
    }

    /// The slots of recurrent states.
    pub(super) fn slots(&self) -> Part<'_, i32> {
        self.ints.part(self.at.slots.clone())
    }

    /// Where the convolution's columns are read.
    pub(super) fn conv_from(&self) -> Part<'_, i32> {
        self.ints.part(self.at.conv_from.clone())
    }

    /// And written.
    pub(super) fn conv_to(&self) -> Part<'_, i32> {
        self.ints.part(self.at.conv_to.clone())
    }

    /// The cells that tokens of a stream go to.
    pub(super) fn cells(&self, stream: &StreamTokens) -> Part<'_, i32> {
        self.ints.part(self.at.cells.clone()).part(stream.tokens.clone())
    }

    /// How many cells each token of a stream sees.
    pub(super) fn n_seen(&self, stream: &StreamTokens) -> Part<'_, i32> {
        self.ints.part(self.at.n_seen.clone()).part(stream.tokens.clone())
    }

    /// How many tokens each sequence of a stream had before.
    pub(super) fn n_past(&self, stream: &StreamTokens) -> Part<'_, i32> {
        self.ints.part(self.at.n_past.clone()).part(stream.sequences.clone())
    }

    /// Where in the list of cells those of each token's sequence begin.
    pub(super) fn first_of_token(&self, stream: &StreamTokens) -> Part<'_, i32> {
        self.ints.part(self.at.first_of_token.clone()).part(stream.tokens.clone())
    }

    /// The same for each sequence.
    pub(super) fn first_of_sequence(&self, stream: &StreamTokens) -> Part<'_, i32> {
        self.ints.part(self.at.first_of_sequence.clone()).part(stream.sequences.clone())
    }

    /// The list, if there is one.
    pub(super) fn list(&self, stream: &StreamTokens) -> Option<Part<'_, i32>> {
        stream.list.clone().map(|list| self.ints.part(list))
    }
}
