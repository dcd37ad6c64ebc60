//! Why a dump could not be read or written.

use std::path::PathBuf;

use thiserror::Error;

use crate::tensor::{GgmlType, StridedError, TensorId};

/// Why a dump could not be read or written.
#[derive(Error, Debug)]
pub enum DumpError {
    /// The file could not be opened or mapped.
    #[error("read dump {}", path.display())]
    Io {
        /// The dump.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not a valid dump.
    #[error("read dump {}: {defect}", path.display())]
    Refused {
        /// The dump.
        path: PathBuf,
        /// What is wrong with it.
        defect: Box<Defect>,
    },
    /// Values were asked for as f32, the tensor has another type.
    #[error("read {item} of {} as f32: its type is {ty}; read its bytes instead", path.display())]
    NotF32 {
        /// The dump.
        path: PathBuf,
        /// The node.
        item: String,
        /// The node's type.
        ty: GgmlType,
    },
    /// The file could not be written.
    #[error("write dump {}", path.display())]
    Write {
        /// The dump.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A writer was given a payload whose size does not follow from its type and extents.
    #[error(
        "write entry {entry} of {}: ne = {ne:?} of {ty} is {expected:?} bytes, got {got}", path.display()
    )]
    PayloadBytes {
        /// The dump.
        path: PathBuf,
        /// The entry.
        entry: String,
        /// The payload's type.
        ty: GgmlType,
        /// The payload's extents.
        ne: [u64; 4],
        /// Bytes that type and extents ask for; none if rows are not whole blocks or the size overflows.
        expected: Option<u64>,
        /// Bytes that were given.
        got: usize,
    },
    /// A writer was given the same entry twice.
    #[error("write entry {entry} of {}: it was written before; give it another name", path.display())]
    EntryTwice {
        /// The dump.
        path: PathBuf,
        /// The entry.
        entry: String,
    },
}

/// What makes a file not a valid dump. Every variant quotes where it is, what was expected and what was found.
#[derive(Error, Clone, PartialEq, Debug)]
#[allow(missing_docs)] // the fields are what the messages quote
pub enum Defect {
    // The container.
    /// There is no zip directory at the end of the file, or it is broken.
    #[error("not a zip file, or cut short ({detail}); copy or make it again")]
    NotAnArchive { detail: String },
    /// Bytes follow the end of the zip directory, or it carries a comment.
    #[error("the zip's end record is not the last thing in the file; remove what was appended")]
    AfterTheEnd,
    /// Two entries have the same name.
    #[error("two entries of the zip have the same name; make the dump again")]
    DuplicateEntryNames,
    /// An entry's name is not UTF-8, or its local header cannot be read.
    #[error("entry {entry}: its local header cannot be read ({detail})")]
    LocalHeader { entry: String, detail: String },
    /// Bytes between entries belong to none of them, or entries overlap.
    #[error(
        "{what} starts at byte {got}, what lies before it ends at byte {expected}; no gaps or overlaps are allowed"
    )]
    Gap { what: String, expected: u64, got: u64 },
    /// An entry is compressed or encrypted.
    #[error(
        "entry {entry} is {how}, entries must be stored; rewrite it uncompressed (np.savez, not np.savez_compressed)"
    )]
    NotStored { entry: String, how: String },
    /// An entry's data reaches beyond the file.
    #[error("entry {entry} needs bytes {start}..{end}, the file has {have}; it was cut short")]
    OutsideFile { entry: String, start: u64, end: u64, have: u64 },
    /// An entry's bytes do not have the checksum that the directory gives.
    #[error(
        "entry {entry} at byte {offset}: crc32 expected {expected:08x}, got {got:08x}; the file was damaged"
    )]
    Checksum { entry: String, offset: usize, expected: u32, got: u32 },

    // The .npy entries.
    /// An entry is not a `.npy` of version 1.0.
    #[error("entry {entry} at byte {offset}: {detail}")]
    NpyHeader { entry: String, offset: usize, detail: String },
    /// An entry is in Fortran order.
    #[error("entry {entry}: fortran_order is True, expected False; write a C-contiguous array")]
    FortranOrder { entry: String },
    /// An entry's element type is not that of the tensor that names it.
    #[error("entry {entry}: {item} needs dtype {expected}, got {got}")]
    Dtype { entry: String, item: String, expected: &'static str, got: String },
    /// An entry's shape is not `ne` reversed.
    #[error("entry {entry}: {item} needs shape {expected:?} (ne reversed), got {got:?}")]
    Shape { entry: String, item: String, expected: Vec<u64>, got: Vec<u64> },
    /// A payload does not have the bytes that a tensor's `ne` asks for.
    #[error("entry {entry}: {item} needs {expected} bytes (its ne and type), the array has {got}")]
    PayloadSize { entry: String, item: String, expected: u64, got: u64 },
    /// A payload is shorter than its own header says.
    #[error("entry {entry}: its header asks for {expected} bytes of payload, got {got}; it was cut short")]
    ShortPayload { entry: String, expected: u64, got: u64 },
    /// Bytes follow a payload within its entry.
    #[error(
        "entry {entry}: its header asks for {expected} bytes of payload, got {got}; remove the extra bytes"
    )]
    TrailingBytes { entry: String, expected: u64, got: u64 },
    /// A tensor names an entry that is not in the file.
    #[error("{item} names entry {entry}, which is not in the file")]
    MissingEntry { item: String, entry: String },
    /// An entry is named by no tensor.
    #[error("entry {entry} belongs to no node or leaf of the manifest; remove it or list it")]
    ExtraEntry { entry: String },

    // The manifest.
    /// There is no `manifest.json`.
    #[error("no manifest.json in the zip: this is an ordinary npz, not a dump")]
    NoManifest,
    /// `manifest.json` is not a JSON object.
    #[error("manifest.json is not a JSON object: {detail}")]
    NotJson { detail: String },
    /// The manifest is of another format.
    #[error("manifest.json: format expected \"lockstep-dump\", got {got}")]
    Format { got: String },
    /// The dump's format is newer than this program.
    #[error("the dump has format version {got}, this program reads up to {known}; update it")]
    NewerVersion { got: u64, known: u64 },
    /// The version is not one that was ever published.
    #[error("manifest.json: version expected 1, got {got}")]
    Version { got: String },
    /// A part of the manifest lacks a field, or a field has the wrong kind of value.
    #[error("manifest.json, {item}: {detail}")]
    Field { item: String, detail: String },
    /// A number is negative where it must not be, or too large.
    #[error("manifest.json, {item}: {field} expected 0..={max}, got {got}")]
    NumberRange { item: String, field: &'static str, max: u64, got: String },
    /// A type's name is not one of ggml's.
    #[error("manifest.json, {item}: type {got:?} is unknown; update this program or the dumper")]
    UnknownType { item: String, got: String },

    // The graph.
    /// Two nodes, or two leaves, have the same id.
    #[error("{item} has an id that {other} has too")]
    DuplicateId { item: String, other: String },
    /// Ids do not count from 0 in the order of the list.
    #[error("{item}: id expected {expected} (ids count from 0 in order)")]
    IdOrder { item: String, expected: u64 },
    /// Two nodes have the same step, name and occurrence.
    #[error("node {first} and node {second} are both {id}")]
    DuplicateTensor { id: TensorId, first: u32, second: u32 },
    /// Occurrences of a name do not count from 0 in evaluation order.
    #[error("{item}: occurrence expected {expected}, got {got} (nodes of that name before it in its step)")]
    Occurrence { item: String, expected: u32, got: u32 },
    /// The step of a node is lower than that of the node before it.
    #[error("{item} comes after a node of step {previous}; nodes are listed in evaluation order")]
    StepOrder { item: String, previous: u32 },
    /// A node or leaf belongs to a step for which there is no ubatch.
    #[error("{item}: the run has {n_steps} ubatches, none for its step")]
    NoUbatch { item: String, n_steps: usize },
    /// A ubatch has no nodes.
    #[error("step {step} has a ubatch, but no nodes")]
    EmptyStep { step: u32 },
    /// Ubatches do not count from 0.
    #[error("run.ubatches: step expected {expected}, got {got}")]
    UbatchStep { expected: usize, got: u32 },
    /// The lists of a ubatch are not equally long.
    #[error("run.ubatches, step {step}: {tokens} tokens, but {got} {field}")]
    UbatchLength { step: u32, field: &'static str, tokens: usize, got: usize },
    /// A ubatch or a change of the memory names a sequence that the run does not have.
    #[error("run.ubatches, step {step}: sequence {seq_id}, the run has {n_seq_max} (n_seq_max)")]
    UnknownSequence { step: u32, seq_id: i32, n_seq_max: u32 },
    /// A token belongs to no sequence.
    #[error("run.ubatches, step {step}: token {token} belongs to no sequence")]
    NoSequence { step: u32, token: usize },
    /// A sequence does not go on where it was.
    #[error(
        "run.ubatches, step {step}: token {token} of sequence {seq_id}, position expected {expected}, got {got}"
    )]
    Position { step: u32, token: usize, seq_id: i32, expected: i64, got: i32 },
    /// Positions were removed that the sequence does not have.
    #[error("run.ubatches, step {step}: seq_rm of sequence {seq_id} from {p0}, expected 0..={next}")]
    RemovedPosition { step: u32, seq_id: i32, next: i64, p0: i32 },
    /// The graph of a step read another token or position than its ubatch has.
    #[error("{item}: number {token} expected {expected} (its step in run.ubatches), got {got}")]
    Input { item: String, token: usize, expected: i32, got: i32 },
    /// The graph of a step read tokens or positions of another kind or number than its ubatch has.
    #[error("{item}: expected i32 for {tokens} tokens (its step in run.ubatches), got {got} of {ty}")]
    InputLength { item: String, ty: GgmlType, tokens: usize, got: usize },
    /// The row of a tensor does not consist of whole blocks, or its size overflows.
    #[error("{item}: ne = {ne:?} of {ty} is not a whole number of blocks, or overflows")]
    Extents { item: String, ne: [u64; 4], ty: GgmlType },
    /// `contiguous` contradicts the strides.
    #[error("{item}: contiguous expected {expected} (from ne = {ne:?}, nb = {nb:?}), got {got}")]
    Contiguous { item: String, expected: bool, got: bool, ne: [u64; 4], nb: [u64; 4] },
    /// UNARY and GLU have a variant, other operators do not.
    #[error("{item}: op {op} {}", if *.expected { "needs a variant" } else { "must not have a variant" })]
    Variant { item: String, op: String, expected: bool },
    /// A source or a root does not exist.
    #[error("{item}: {role} is {to}, which does not exist")]
    Dangling { item: String, role: String, to: String },
    /// A source or a root is evaluated after the node itself.
    #[error("{item}: {role} is {to}, which comes later")]
    Later { item: String, role: String, to: String },
    /// A source or a root belongs to another step.
    #[error("{item}: {role} is {to}, which belongs to another step")]
    OtherStep { item: String, role: String, to: String },
    /// A source or a root is given with a name that is not its own.
    #[error("{item}: {role} is {to}, but is called {got:?}")]
    OtherName { item: String, role: String, to: String, got: String },
    /// The root of a view is a view itself.
    #[error("{item}: view_of is {root}, which is a view itself; it must be the root")]
    RootIsView { item: String, root: String },
    /// The root of a view is not contiguous, so that its payload is not its memory.
    #[error("{item}: view_of is {root}, which is not contiguous")]
    RootNotContiguous { item: String, root: String },
    /// A pure view does not say what it views.
    #[error("{item}: op {op} needs a first source and view_of")]
    NoRoot { item: String, op: String },
    /// The first source of a pure view has another root than the view.
    #[error("{item}: view_of is {got}, the root of its first source is {expected}")]
    OtherRoot { item: String, expected: String, got: String },
    /// A view reaches beyond the tensor that it views.
    #[error("{item}: view_of {root}: {detail}")]
    ViewOutside { item: String, root: String, detail: String },
    /// A leaf's step or entry does not fit its kind.
    #[error("{item}: {detail}")]
    LeafKind { item: String, detail: &'static str },

    // What was asked for.
    /// The manifest does not say which nodes were selected.
    #[error(
        "manifest.json, run: selected is missing, so a tensor that was lost cannot be told from one that was left out; \
         make the dump again with the present llama-dump"
    )]
    NoSelection,
    /// The ranges of selected nodes are not ascending, or reach beyond the nodes.
    #[error(
        "manifest.json, run: selected has {run:?}, expected first and last id of a run that starts at {least} or later, \
         of {n_nodes} nodes"
    )]
    SelectedRun { run: [u32; 2], least: usize, n_nodes: usize },
    /// A node is selected although it cannot be, or left out although nothing excludes it.
    #[error(
        "{item}: run.selected {}, but by its name and extents and the run's filters it {}",
        if *.expected { "leaves it out" } else { "lists it" },
        if *.expected { "was asked for" } else { "cannot have been asked for" }
    )]
    SelectedWrongly { item: String, expected: bool },
    /// A selected node has neither an entry nor a stored tensor that it is a view of.
    #[error("{item} was asked for (run.selected), but its values are missing; make the dump again")]
    NoValues { item: String },

    // The payloads of views.
    /// A strided view was stored as if it were packed.
    #[error(
        "entry {entry}: {item} is stored as if it were packed (the bytes that follow its start in {root}); \
         gather it by nb = {nb:?}"
    )]
    PackedView { entry: String, item: String, root: String, nb: [u64; 4] },
    /// A stored view is not the view of its stored root.
    #[error("entry {entry}: {item} does not agree with its root {root}, first at byte {at} of the payload")]
    ViewDisagrees { entry: String, item: String, root: String, at: usize },
    /// A view cannot be read from its root.
    #[error("{item}: {source}")]
    Strided { item: String, source: StridedError },
}
