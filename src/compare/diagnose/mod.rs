//! The shape of an error: what was done to the reference's values to give the actual ones.
//!
//! A shape is *verified*, never guessed. With `x` the reference, `y` the actual values and `T` what a shape does:
//!
//! ```text
//! explains = 1 - |y - T(x)|^2 / |y - x|^2 >= SHARE      and      |y - T(x)| <= limit |T(x)|
//! ```
//!
//! that is: undone, the tensor would be within what two right engines differ by. And noise must be explained so well by a chance of `2^-30` at
//! most (`pair/chance.rs`). Of a shape that says *where* an error is, `T(x)`
//! is `y` there and `x` elsewhere. [`SHAPES`] has the order in which findings are told: what has fewer free numbers stands before what has
//! more, and what is done to all values before where they are wrong. So a sign stands before a factor, a factor
//! before a permutation.
//!
//! Adding a shape: a file here with a unit struct that implements [`Shape`], and one line in [`SHAPES`].

mod activation;
mod axis;
mod channel;
mod chunk_edges;
mod constant;
mod denominator;
mod element;
mod factor;
mod grid;
mod growth;
mod hadamard;
mod head;
mod mixed;
mod nearest;
mod offset;
mod onset;
mod own_factor;
mod pair;
mod period;
mod permutation;
mod regular;
mod roll;
mod sign;
mod stale;
mod tail_rows;
mod transpose;
mod wrong_parts;

#[cfg(test)]
mod noise_tests;
#[cfg(test)]
mod tests;

pub use axis::Axis;
pub use pair::{Other, Pair};

/// The least share of the error's energy that a shape must explain: what is left is at most a tenth of the error, by norm.
///
/// A fit of k free numbers to noise of n elements explains `k / n` of it, so that shapes whose free numbers are at most half as
/// many as the elements are not found in noise.
pub const SHARE: f64 = 0.99;

/// One thing that is so about an error.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// The name of the shape, stable; `equal`, `nonfinite`, `empty`, `zero` or `unknown` where none was found.
    pub shape: &'static str,
    /// What it is, in words that fit after "looks like".
    pub words: String,
    /// The share of the error's energy that it explains, where it gives values.
    pub explains: Option<f64>,
    /// Whether it was verified. What was not is only how pitfalls of comparisons are read.
    pub is_verified: bool,
}

impl Finding {
    fn verified(shape: &dyn Shape, words: String, explains: f64) -> Finding {
        Finding { shape: shape.name(), words, explains: Some(explains), is_verified: true }
    }
}

/// A shape that an error may have.
pub trait Shape: Sync {
    /// The name in reports and the file's stem.
    fn name(&self) -> &'static str;

    /// What is found, if the error has this shape. The pair is finite, not empty, and not equal.
    fn find(&self, pair: &Pair<'_>) -> Option<Finding>;
}

/// Every shape, in the order of the module's text. `tests/registries.rs` compares this table with the folder.
pub const SHAPES: &[&dyn Shape] = &[
    &stale::Stale,
    &constant::Constant,
    &activation::Activation,
    &sign::Sign,
    &factor::Factor,
    &offset::Offset,
    &roll::Roll,
    &transpose::Transpose,
    &permutation::Permutation,
    &mixed::Mixed,
    &hadamard::Hadamard,
    &denominator::Denominator,
    &grid::Grid,
    &element::Element,
    &channel::Channel,
    &head::Head,
    &period::Period,
    &chunk_edges::ChunkEdges,
    &tail_rows::TailRows,
    &growth::Growth,
    &onset::Onset,
    &own_factor::OwnFactor,
];

/// Names the shape of an error: every shape that is verified, the first to be told first. Never empty: equal tensors, values that are
/// not finite, and an error of no known shape are said too.
pub fn diagnose(pair: &Pair<'_>) -> Vec<Finding> {
    if let Some(finding) = pair::state(pair) {
        return vec![finding];
    }
    let found: Vec<Finding> = SHAPES.iter().filter_map(|shape| shape.find(pair)).collect();
    if found.is_empty() { vec![pair::unknown(pair)] } else { found }
}
