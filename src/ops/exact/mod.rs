//! The f64 oracles: one per ggml operator, evaluated on the reference's own inputs.
//!
//! An oracle gives, for each element of the result, its exact value (in f64) and its *terms*: the sum of the absolute
//! values of what was added to make it. An error is judged as a share of the terms, so that cancellation is not blamed on
//! whoever computed the sum. Each file says what terms means for its operators, and how many additions an element takes.
//!
//! Adding an oracle: a file here that implements [`Oracle`], its `mod` line, one line in [`ORACLES`] and a golden
//! (CONTRIBUTING.md).

mod activation;
mod add_id;
mod arange;
mod argsort;
mod attention;
mod centred_norm;
mod choice;
mod dsv4_hc_comb;
mod dsv4_hc_post;
mod dsv4_hc_pre;
mod elementwise;
mod f16_accumulator;
mod flash_attn_ext;
mod flash_in_ggml;
mod gated_delta_net;
mod get_rows;
mod glu;
mod lightning_indexer;
mod math;
mod matrices;
mod moves;
mod mul_mat;
mod mul_mat_id;
mod norm;
mod operand;
mod place;
mod pool_2d;
mod rope;
mod rope_angles;
mod rounding;
mod roundings;
mod set;
mod set_rows;
mod sinkhorn;
mod soft_max;
mod solve_tri;
mod ssm_conv;
mod ssm_scan;
mod sums;
mod unary;

pub use choice::{Choice, Chosen, Settled};
pub use operand::{Data, Operand};
pub use rope::ROPE_STEPS;
pub use rope_angles::turn_terms;
pub use rounding::{Doubt, Rounded, Sums, activation_on_cpu, cpu_kernel, round_activation, vec_dot_type};
pub use roundings::{ActivationRounding, CpuKernel, MmqLayout, Rounding, Setting, SumOrder};

use thiserror::Error;

use crate::arithmetic::{Ggml, Primitives};

/// Half the distance from 1 to the next f32: the relative error of one rounding.
const U: f64 = f32::EPSILON as f64 / 2.0;

/// A node to evaluate: its operator with parameters, the extents of its result, and its sources.
#[derive(Clone, Copy, Debug)]
pub struct Invocation<'a> {
    /// ggml's name of the operator.
    pub op: &'a str,
    /// Which unary or gated operator.
    pub variant: Option<&'a str>,
    /// `op_params` as int32, trailing zeros removed.
    pub params: &'a [i32],
    /// Extents of the result, dimension 0 fastest.
    pub ne: [u64; 4],
    /// The sources in order; an empty slot is none.
    pub sources: &'a [Option<Operand<'a>>],
}

/// How ggml-cpu came to a node.
#[derive(Clone, Copy, Debug)]
pub struct Executed<'a> {
    /// The build, and how it was set.
    pub ggml: Ggml,
    /// The order of its operations.
    pub primitives: &'a Primitives,
    /// Of each source, whether it lies in memory without gaps and in its own order; what is not said is true.
    pub contiguous: &'a [bool],
}

/// The exact result of a node.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Exact {
    /// The values, packed, dimension 0 fastest.
    pub values: Vec<f64>,
    /// The terms of each value; all zero for an operator that only moves values.
    pub terms: Vec<f64>,
    /// How many numbers an element adds up: the n of its budget.
    pub additions: f64,
    /// For an operator that rounds on purpose to few digits: how far each value moves if its rounding goes to the other side,
    /// where it lies so near the middle between two that this cannot be told; 0 elsewhere. Empty for every other operator.
    pub flips: Vec<f64>,
    /// For an operator that chooses among scores: what else is as right as its values; none for every other operator.
    pub choice: Option<Choice>,
}

/// Why an oracle could not evaluate a node.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OracleError {
    /// No oracle knows the operator.
    #[error("operator {op} not known")]
    Unknown {
        /// The operator, with its variant.
        op: String,
    },
    /// A source is not there.
    #[error("{op} needs source {index}, the node has none")]
    NoSource {
        /// The operator.
        op: String,
        /// Which source.
        index: usize,
    },
    /// A source or the result has extents that the operator cannot have.
    #[error("{op}: {what}")]
    Shape {
        /// The operator.
        op: String,
        /// What does not fit.
        what: String,
    },
    /// ggml-cpu's arithmetic is not known here.
    #[error("{op}: ggml's arithmetic is not known: {what}")]
    Arithmetic {
        /// The operator.
        op: String,
        /// What is not known.
        what: String,
    },
    /// A parameter has a value that this oracle does not evaluate.
    #[error("{op} with {what} not known")]
    Parameter {
        /// The operator.
        op: String,
        /// The parameter and its value.
        what: String,
    },
}

/// Evaluates the nodes of one or more operators.
pub trait Oracle: Sync {
    /// The ggml operators (`ggml_op_name`) that it knows.
    fn ops(&self) -> &'static [&'static str];

    /// Evaluates a node.
    ///
    /// # Errors
    /// If the node is not one that ggml could have made, or has parameters that this oracle does not know.
    fn exact(&self, node: &Invocation<'_>) -> Result<Exact, OracleError>;

    /// The ways in which the reference may have rounded on purpose while it computed this node, the likeliest first; never
    /// empty. Most operators round nothing on purpose.
    fn roundings(&self, _node: &Invocation<'_>, _setting: &Setting) -> Vec<Rounding> {
        vec![Rounding::None]
    }

    /// Evaluates a node with one of its [`Oracle::roundings`].
    ///
    /// # Errors
    /// As [`Oracle::exact`].
    fn exact_with(&self, node: &Invocation<'_>, _rounding: Rounding) -> Result<Exact, OracleError> {
        self.exact(node)
    }

    /// What ggml-cpu computes, to the bit.
    ///
    /// # Errors
    /// As [`Oracle::exact`]; and [`OracleError::Arithmetic`] where it is not known in which order ggml-cpu computes this.
    fn ggml(&self, node: &Invocation<'_>, _executed: &Executed<'_>) -> Result<Vec<f32>, OracleError> {
        Err(node.arithmetic("its order of operations"))
    }
}

/// Oracles by the name of their file.
pub type Oracles = [(&'static str, &'static dyn Oracle)];

/// The files here and their oracles; `tests/registries.rs` compares this table with the folder.
pub const ORACLES: &Oracles = &[
    ("add_id", &add_id::AddId),
    ("arange", &arange::Arange),
    ("argsort", &argsort::Argsort),
    ("centred_norm", &centred_norm::CentredNorm),
    ("dsv4_hc_comb", &dsv4_hc_comb::Dsv4HcComb),
    ("dsv4_hc_post", &dsv4_hc_post::Dsv4HcPost),
    ("dsv4_hc_pre", &dsv4_hc_pre::Dsv4HcPre),
    ("elementwise", &elementwise::Elementwise),
    ("flash_attn_ext", &flash_attn_ext::FlashAttnExt),
    ("gated_delta_net", &gated_delta_net::GatedDeltaNet),
    ("get_rows", &get_rows::GetRows),
    ("glu", &glu::Glu),
    ("lightning_indexer", &lightning_indexer::LightningIndexer),
    ("math", &math::Math),
    ("moves", &moves::Moves),
    ("mul_mat", &mul_mat::MulMat),
    ("mul_mat_id", &mul_mat_id::MulMatId),
    ("norm", &norm::Norm),
    ("place", &place::Place),
    ("pool_2d", &pool_2d::Pool2d),
    ("rope", &rope::RopeOracle),
    ("set", &set::Set),
    ("set_rows", &set_rows::SetRows),
    ("soft_max", &soft_max::SoftMax),
    ("solve_tri", &solve_tri::SolveTri),
    ("ssm_conv", &ssm_conv::SsmConv),
    ("ssm_scan", &ssm_scan::SsmScan),
    ("sums", &sums::Sums),
    ("unary", &unary::Unary),
];

/// Evaluates a node with the oracle of its operator.
///
/// # Errors
/// [`OracleError::Unknown`] if there is none; else as [`Oracle::exact`].
pub fn exact(node: &Invocation<'_>) -> Result<Exact, OracleError> {
    oracle(node)?.exact(node)
}

/// The oracle of a node's operator.
///
/// # Errors
/// [`OracleError::Unknown`] if there is none.
pub fn oracle(node: &Invocation<'_>) -> Result<&'static dyn Oracle, OracleError> {
    oracle_among(ORACLES, node)
}

/// The same among others than [`ORACLES`].
///
/// # Errors
/// [`OracleError::Unknown`] if there is none.
pub fn oracle_among(
    oracles: &'static Oracles,
    node: &Invocation<'_>,
) -> Result<&'static dyn Oracle, OracleError> {
    let found = oracles.iter().find(|(_, oracle)| oracle.ops().contains(&node.op));
    found.map(|(_, oracle)| *oracle).ok_or_else(|| node.unknown())
}

impl<'a> Invocation<'a> {
    /// Source `index`.
    fn source(&self, index: usize) -> Result<&'a Operand<'a>, OracleError> {
        self.sources
            .get(index)
            .and_then(Option::as_ref)
            .ok_or_else(|| OracleError::NoSource { op: self.op.to_owned(), index })
    }

    /// Parameter `index` as an integer; 0 beyond the end, as trailing zeros are removed.
    fn int(&self, index: usize) -> i32 {
        self.params.get(index).copied().unwrap_or(0)
    }

    /// Parameter `index` as the float whose bits it holds.
    fn float(&self, index: usize) -> f64 {
        f32::from_bits(self.int(index) as u32).into()
    }

    /// Number of elements of the result.
    fn elements(&self) -> usize {
        self.ne.iter().product::<u64>() as usize
    }

    /// The error for extents that do not fit.
    fn shape(&self, what: impl Into<String>) -> OracleError {
        OracleError::Shape { op: self.op.to_owned(), what: what.into() }
    }

    /// Fails with `what` unless it holds.
    fn require(&self, holds: bool, what: &str) -> Result<(), OracleError> {
        if holds { Ok(()) } else { Err(self.shape(what)) }
    }

    /// The error for a parameter that is not evaluated.
    fn parameter(&self, what: impl Into<String>) -> OracleError {
        OracleError::Parameter { op: self.op.to_owned(), what: what.into() }
    }

    /// The error for what ggml computes in a way that is not known.
    fn arithmetic(&self, what: impl Into<String>) -> OracleError {
        OracleError::Arithmetic { op: self.name(), what: what.into() }
    }

    fn name(&self) -> String {
        let variant = self.variant.map(|variant| format!(" {variant}")).unwrap_or_default();
        format!("{}{variant}", self.op)
    }

    /// Parameter `index` as ggml reads it.
    fn single(&self, index: usize) -> f32 {
        f32::from_bits(self.int(index) as u32)
    }

    fn unknown(&self) -> OracleError {
        OracleError::Unknown { op: self.name() }
    }
}

impl Exact {
    /// A result made element by element: value and terms of each.
    fn collect(additions: f64, elements: impl Iterator<Item = (f64, f64)>) -> Exact {
        let (values, terms) = elements.unzip();
        Exact { values, terms, additions, ..Exact::default() }
    }

    /// The values as f32, which those of an operator are that only moves.
    fn into_singles(self) -> Vec<f32> {
        self.values.into_iter().map(|value| value as f32).collect()
    }

    /// Values that were moved and not computed.
    fn moved(values: Vec<f64>) -> Exact {
        Exact { terms: vec![0.0; values.len()], values, ..Exact::default() }
    }
}

/// Walks the indices of a tensor, dimension 0 fastest.
fn indices(ne: [u64; 4]) -> impl Iterator<Item = [usize; 4]> {
    let [n0, n1, n2, n3] = ne.map(|n| n as usize);
    let rows = (0..n3).flat_map(move |i3| (0..n2).flat_map(move |i2| (0..n1).map(move |i1| (i1, i2, i3))));
    rows.flat_map(move |(i1, i2, i3)| (0..n0).map(move |i0| [i0, i1, i2, i3]))
}
