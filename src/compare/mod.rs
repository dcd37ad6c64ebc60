//! How far the actual tensors are from the reference's: metrics, limits, verdicts.
//!
//! Nothing passes by not being compared: every tensor ends with a [`Verdict`], a comparison of nothing
//! is not a pass, and every judgement is written `err <= limit`, so that NaN fails.

mod budget;
mod by_step;
mod comparison;
mod diagnose;
mod error;
mod greedy;
mod legs;
mod limit;
mod logits;
mod metrics;
mod result;
mod score;
mod summary;
mod sums;
mod verdict;

pub use budget::{BUDGET_FACTOR, U, budget};
pub use by_step::{ByStep, StepRow};
pub use comparison::{Comparison, FirstDifference, KindRow, LayerWorst, StepWorst, worst};
pub use diagnose::{Axis, Finding, Other, Pair, SHAPES, SHARE, Shape, diagnose};
pub use error::CompareError;
pub use greedy::Greedy;
pub use legs::{Departs, Leg, Legs};
pub use limit::{CUMULATIVE_RELATIVE_L2, FLOOR_FACTOR, LARGEST_LIMIT, Limit};
pub use logits::LogitsResult;
pub use metrics::{Metrics, NonFinite, scaled_error};
pub use result::{Shaped, TensorResult};
pub use score::{Predicted, Score};
pub use summary::Summary;
pub use verdict::Verdict;
