//! Why an engine could not run.

use thiserror::Error;

use super::TapError;
use crate::model::ModelError;
use crate::ops::exact::ActivationRounding;
use crate::ops::{DecayOrder, DeltaRule};
use crate::tensor::GgmlType;

/// Why an engine could not run.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum EngineError {
    /// A weight is missing or cannot be decoded.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A device failed.
    #[error(transparent)]
    Gpu(Box<crate::engine::gpu::GpuError>),
    /// An engine has no way to do this.
    #[error("the {engine} engine cannot run this: {what}; run the cpu engine")]
    NotSupported {
        /// The engine.
        engine: String,
        /// What it cannot do.
        what: String,
    },
    /// A token id is not in the vocabulary.
    #[error("token {token} at position {position} is not in the vocabulary of {n_vocab}")]
    Token {
        /// The token id.
        token: u32,
        /// Its position.
        position: i64,
        /// Size of the vocabulary.
        n_vocab: usize,
    },
    /// The positions do not continue the sequence.
    #[error(
        "position {got} follows {n_past} tokens of sequence {sequence}, expected {n_past}: reset the engine to start a new sequence"
    )]
    Position {
        /// The sequence.
        sequence: i32,
        /// The position that was given.
        got: i64,
        /// Tokens of the sequence run so far.
        n_past: usize,
    },
    /// Sequences do not stand together in a ubatch, or some have more tokens than others.
    #[error(
        "sequences {got:?} in one ubatch: the tokens of a sequence stand together, and each sequence has as many; run the rest in \
         a ubatch of its own"
    )]
    Sequences {
        /// The sequence of each token.
        got: Vec<i32>,
    },
    /// A recurrent state cannot be taken back as far as that.
    #[error(
        "sequence {sequence} cannot be taken back by {tokens} token(s): {kept} earlier state(s) are kept (n_rs_seq = {n_rs_seq}); keep more, or \
         forget the sequence and run it again"
    )]
    Rollback {
        /// The sequence.
        sequence: i32,
        /// By how many tokens.
        tokens: usize,
        /// Earlier states that there are.
        kept: usize,
        /// Earlier states that are kept at most.
        n_rs_seq: usize,
    },
    /// A snapshot was taken of another model.
    #[error("the snapshot does not belong to this model: {what}")]
    OtherSnapshot {
        /// What differs.
        what: String,
    },
    /// Tokens, positions, sequences and outputs are not equally many, or none.
    #[error(
        "a ubatch of {tokens} tokens, {positions} positions, {sequences} sequences and {outputs} outputs; expected as many of each, at \
         least one"
    )]
    UbatchSize {
        /// Number of tokens.
        tokens: usize,
        /// Number of positions.
        positions: usize,
        /// Number of sequence ids.
        sequences: usize,
        /// Number of output flags.
        outputs: usize,
    },
    /// The context is full.
    #[error("{needed} tokens do not fit into a context of {n_ctx}")]
    ContextFull {
        /// Tokens with this ubatch.
        needed: usize,
        /// Size of the context.
        n_ctx: usize,
    },
    /// An earlier step failed on its way through the layers, so that the state belongs to no sequence.
    #[error(
        "step {step} failed halfway: reset the engine and run the sequences again, or restore a snapshot"
    )]
    Unfinished {
        /// The step that failed.
        step: u32,
    },
    /// A folded weight was not multiplied through its transform in a whole forward pass.
    #[error("weight `{name}` is folded but was not reached through its transform")]
    FoldNotReached {
        /// The weight.
        name: String,
    },
    /// A convention cannot be applied to this model.
    #[error("convention {name} = {candidate} cannot be run on this model: {why}")]
    Convention {
        /// The convention.
        name: &'static str,
        /// The candidate.
        candidate: String,
        /// Why not.
        why: String,
    },
    /// The delta net is to run as a graph of plain operators with a rule that this graph does not have.
    #[error("a delta net out of plain operators has no update by {got:?}; run the fused operator")]
    UnfusedRule {
        /// The update and when the state decays.
        got: (DeltaRule, DecayOrder),
    },
    /// The order of operations of a build of llama.cpp is not known for this.
    #[error("llama.cpp's arithmetic cannot be followed to the bit: {what}; leave out --arithmetic ggml")]
    NotFollowed {
        /// What stands in the way.
        what: String,
    },
    /// There is no such convention or candidate.
    #[error("unknown convention `{got}`; {expected}")]
    UnknownConvention {
        /// What was asked for.
        got: String,
        /// What there is.
        expected: String,
    },
    /// There is no such fault.
    #[error("unknown fault `{got}`, expected one of {expected}")]
    UnknownFault {
        /// What was asked for.
        got: String,
        /// What there is.
        expected: String,
    },
    /// Keys or values are to be stored in a type that no engine here keeps them in.
    #[error("a {cache} cache of {got}: this engine keeps f32, f16 or bf16; make the dump with one of them")]
    CacheType {
        /// `K` or `V`.
        cache: &'static str,
        /// The type.
        got: GgmlType,
    },
    /// All activations are to be rounded in blocks that do not divide one of their widths.
    #[error(
        "activations of width {width} cannot be rounded to {rounding}, {block} elements at a time: take a model whose widths are \
        multiples of {block}"
    )]
    ActivationBlock {
        /// What they are to be rounded to.
        rounding: ActivationRounding,
        /// Elements that are rounded together.
        block: usize,
        /// The width.
        width: usize,
    },
    /// The tap refused to go on.
    #[error("tap at {tensor}: {cause}")]
    Tap {
        /// The tensor it was given.
        tensor: String,
        /// What it said.
        cause: TapError,
    },
    /// The tap handed back a replacement of the wrong size.
    #[error("replacement for {tensor} has {got} elements, expected {expected}")]
    Replacement {
        /// The tensor.
        tensor: String,
        /// Elements of the replacement.
        got: usize,
        /// Elements of the tensor.
        expected: usize,
    },
}
