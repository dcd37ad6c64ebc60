//! What `manifest.json` says, as plain structs.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::named::{is_cache, is_named};
use crate::tensor::{GgmlType, Layout, TensorId};

/// Everything a dump says about a run, apart from the payloads.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Manifest {
    /// The program that computed the values.
    pub producer: Producer,
    /// The model that was run.
    pub model: Model,
    /// What was evaluated, and with which settings.
    pub run: Run,
    /// Whether capturing changed the result.
    pub capture: Capture,
    /// Weights, caches and inputs; `leaves[i].id == i`.
    pub leaves: Vec<Leaf>,
    /// The nodes of the graph in evaluation order, captured or not; `nodes[i].id == i`.
    pub nodes: Vec<Node>,
}

/// The program that computed the values.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Producer {
    /// `llama.cpp`, or the name of another engine.
    pub name: String,
    /// Its build number.
    pub build: u64,
    /// Its commit or tag.
    pub commit: String,
    /// The backend that computed (`CPU`, `CUDA0`).
    pub backend: String,
    /// What it says about the machine (`llama_print_system_info`).
    pub system_info: String,
    /// The compiler it was built with.
    pub compiler: String,
    /// The C library it ran with.
    pub libc: String,
    /// The program that wrote the dump, with its version.
    pub dumper: String,
    /// What was changed in the program's source, if it is not the commit's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<String>,
}

/// The model that was run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Model {
    /// File name, without folders.
    pub file: String,
    /// SHA-256 of the file, lower-case hex.
    pub sha256: String,
    /// `general.architecture`.
    pub architecture: String,
    /// Scalar metadata as strings, as `llama_model_meta_val_str` gives it; long values are left out.
    pub metadata: BTreeMap<String, String>,
}

/// What was evaluated, and with which settings.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The evaluations of the graph, one per step.
    pub ubatches: Vec<Ubatch>,
    /// How many of the given tokens went into each evaluation that was asked for. One that was larger than `n_ubatch`, or
    /// held sequences of different lengths, is several steps.
    pub schedule: Vec<u32>,
    /// The schedule as it was given, where it says more than a list of numbers can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// How many tokens the model generated after those, each evaluated in a step of its own.
    pub generated: u32,
    /// The text the tokens came from, if they came from a text.
    pub prompt: Option<String>,
    /// Context length in tokens.
    pub n_ctx: u32,
    /// Most sequences at a time.
    pub n_seq_max: u32,
    /// Whether all sequences share one KV buffer; none if there is one sequence, where it makes no difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_unified: Option<bool>,
    /// How many tokens of a sequence can be taken back at a time: the recurrent states that are kept beside the newest.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_rs_seq: u32,
    /// Most tokens in one call of decode.
    pub n_batch: u32,
    /// Most tokens in one evaluation of the graph.
    pub n_ubatch: u32,
    /// Threads that computed.
    pub n_threads: u32,
    /// Whether flash attention was on.
    pub flash_attn: bool,
    /// ggml's name of the K cache's type.
    pub type_k: String,
    /// ggml's name of the V cache's type.
    pub type_v: String,
    /// Whether weights were repacked for the CPU; none if the engine cannot say.
    pub repack: Option<bool>,
    /// Whether ggml's plain reference kernels computed, instead of its vectorised ones.
    pub reference_kernels: bool,
    /// Whether the gated delta net ran as one fused operator; none if unknown or the model has none.
    pub fused_gdn: Option<bool>,
    /// Regular expressions that selected tensors; none means all.
    pub filters: Vec<String>,
    /// Where the graph of each step ends in this file: at the first node whose name contains a match of this expression; none
    /// if it holds all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Whether only tensors that llama.cpp named on purpose were captured.
    pub named_only: bool,
    /// Whether views were stored as entries of their own.
    pub views: bool,
    /// The nodes that filters and `named_only` selected and that have elements: the first and last id of each run of
    /// them, ascending. A selected node without values is a defect, not a node that was left out.
    pub selected: Vec<[u32; 2]>,
}

/// One evaluation of the graph. The four lists are equally long.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ubatch {
    /// Which evaluation, from 0.
    pub step: u32,
    /// Token ids.
    pub tokens: Vec<i32>,
    /// Position of each token in its sequence.
    pub positions: Vec<i32>,
    /// The sequences that each token belongs to.
    pub seq_ids: Vec<Vec<i32>>,
    /// 1 where logits were asked for.
    pub outputs: Vec<u8>,
    /// What was done to the memory between the step before and this one, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<MemoryChange>,
}

/// A change of what the context remembers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum MemoryChange {
    /// Everything is forgotten (`llama_memory_clear` without the data: buffers keep what they hold).
    Clear,
    /// A sequence forgets its positions from `p0` on (`llama_memory_seq_rm`).
    SeqRm {
        /// The sequence.
        seq_id: i32,
        /// The first position that is forgotten.
        p0: i32,
    },
    /// A sequence becomes a copy of another (`llama_memory_seq_cp`).
    SeqCp {
        /// The sequence that is copied.
        seq_id_src: i32,
        /// The sequence that becomes the copy.
        seq_id_dst: i32,
    },
}

/// Whether capturing changed the result: the run was repeated without it and its logits compared.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Capture {
    /// Whether all logits were equal, bit for bit.
    pub unchanged: bool,
    /// How many logits were compared.
    pub compared_logits: u64,
    /// Where they differed first.
    pub first_difference: Option<serde_json::Value>,
}

/// A tensor that no operator computed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Leaf {
    /// Its number among the leaves.
    pub id: u32,
    /// The step it belongs to; none for weights and caches.
    pub step: Option<u32>,
    /// llama.cpp's name.
    pub name: String,
    /// What it is.
    pub kind: LeafKind,
    /// Element type.
    #[serde(rename = "type", with = "type_name")]
    pub ty: GgmlType,
    /// Extents, dimension 0 fastest.
    pub ne: [u64; 4],
    /// Strides in bytes.
    pub nb: [u64; 4],
    /// The entry that holds its values (inputs only), without `.npy`.
    pub entry: Option<String>,
}

/// What a leaf is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LeafKind {
    /// A tensor of the model's file.
    Weight,
    /// Set anew for each step: tokens, positions, masks.
    Input,
    /// Kept from one step to the next: keys, values, convolution and recurrent states.
    Cache,
}

/// One operator's result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Its number in evaluation order, over the whole file.
    pub id: u32,
    /// Which evaluation of the graph.
    pub step: u32,
    /// llama.cpp's name.
    pub name: String,
    /// How many nodes of this name came before it in its step.
    pub occurrence: u32,
    /// ggml's name of the operator (`MUL_MAT`; `UNARY` and `GLU` have a variant).
    pub op: String,
    /// Which unary or gated operator (`SILU`); only with `UNARY` and `GLU`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The operator's parameters (`op_params`), trailing zeros removed.
    pub params: Vec<i32>,
    /// Element type.
    #[serde(rename = "type", with = "type_name")]
    pub ty: GgmlType,
    /// Extents, dimension 0 fastest.
    pub ne: [u64; 4],
    /// Strides in bytes, as the tensor lay in memory; the payload is packed.
    pub nb: [u64; 4],
    /// Whether it lay packed in memory (`ggml_is_contiguous`).
    pub contiguous: bool,
    /// The tensors it was computed from; an empty slot is none.
    pub sources: Vec<Option<Source>>,
    /// The tensor whose memory it shares, if it shares one.
    pub view_of: Option<ViewOf>,
    /// The entry that holds its values, without `.npy`.
    pub entry: Option<String>,
}

/// A node or a leaf, by id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The node with this id.
    Node(u32),
    /// The leaf with this id.
    Leaf(u32),
}

/// An operand of a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Source {
    /// Which tensor.
    #[serde(flatten)]
    pub from: Origin,
    /// Its name.
    pub name: String,
}

/// Whose memory a node shares.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ViewOf {
    /// The tensor that owns the memory, never a view itself.
    #[serde(flatten)]
    pub root: Origin,
    /// Its name.
    pub name: String,
    /// Bytes from the root's first byte to this tensor's.
    pub offset: u64,
}

impl Node {
    /// What identifies it within the run.
    pub fn id(&self) -> TensorId {
        TensorId { step: self.step, name: self.name.clone(), occurrence: self.occurrence }
    }

    /// Whether it computes nothing: VIEW, RESHAPE, PERMUTE, TRANSPOSE.
    pub fn is_pure_view(&self) -> bool {
        matches!(self.op.as_str(), "VIEW" | "RESHAPE" | "PERMUTE" | "TRANSPOSE")
    }

    /// Whether llama.cpp named it on purpose; see [`is_named`].
    pub fn is_named(&self) -> bool {
        is_named(&self.name)
    }

    /// Whether it is a pure view of a cache (a leaf called `cache_k_l*`, `cache_v_l*`, `cache_r_l*` or
    /// `cache_s_l*`).
    pub fn is_cache_view(&self) -> bool {
        let of_cache = |view: &ViewOf| matches!(view.root, Origin::Leaf(_)) && is_cache(&view.name);
        self.is_pure_view() && self.view_of.as_ref().is_some_and(of_cache)
    }

    /// Its extents and strides in elements.
    pub fn layout(&self) -> Layout {
        Layout { ne: self.ne, nb: self.nb }
    }

    /// `node 5 'attn_norm-3' (step 0)`, for messages.
    pub(super) fn label(&self) -> String {
        format!("node {} '{}' (step {})", self.id, self.name, self.step)
    }
}

impl Leaf {
    /// Its extents and strides in elements.
    pub fn layout(&self) -> Layout {
        Layout { ne: self.ne, nb: self.nb }
    }

    /// `leaf 5 'inp_pos'`, for messages.
    pub(super) fn label(&self) -> String {
        format!("leaf {} '{}'", self.id, self.name)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Node(id) => write!(f, "node {id}"),
            Origin::Leaf(id) => write!(f, "leaf {id}"),
        }
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// A type as ggml's name.
mod type_name {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::tensor::GgmlType;

    pub(super) fn serialize<S: Serializer>(ty: &GgmlType, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(ty.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<GgmlType, D::Error> {
        let name = String::deserialize(deserializer)?;
        GgmlType::from_name(&name).ok_or_else(|| D::Error::custom(format!("unknown type {name:?}")))
    }
}
