//! One tensor of the reference, and how well each candidate explains it.

use super::{AskError, Held};
use crate::compare::Score;
use crate::dump::DumpError;
use crate::harness::HarnessError;
use crate::model::ModelError;
use crate::ops::Tracked;
use crate::ops::exact::OracleError;
use crate::tensor::GgmlType;

/// What a question found at one tensor.
#[derive(Clone, PartialEq, Debug)]
pub struct Trial {
    /// What an answer is given for: the kind of a weight, or of a tensor.
    pub group: String,
    /// The reference's tensor.
    pub(in crate::question) reference: Held,
    /// The layer, if it belongs to one.
    pub layer: Option<usize>,
    /// One for each candidate; none where it cannot be on this model.
    pub scores: Vec<Option<Score>>,
    /// What a candidate makes of the tensor, if that was asked for.
    pub(super) kept: Option<Vec<Tracked>>,
}

/// What a question found at a site.
pub type Looked = Result<Vec<Trial>, Stop>;

/// The trials of which the dump holds all that they need.
///
/// # Errors
/// If there is none, why not; and if one fails.
pub(in crate::question) fn those_held(trials: impl IntoIterator<Item = Result<Trial, Stop>>) -> Looked {
    let mut held = Vec::new();
    let mut left_out = Stop::Elsewhere;
    for trial in trials {
        match trial {
            Ok(trial) => held.push(trial),
            Err(stop @ Stop::Failed(_)) => return Err(stop),
            Err(Stop::Elsewhere) => {}
            Err(stop) => left_out = stop,
        }
    }
    if held.is_empty() { Err(left_out) } else { Ok(held) }
}

/// Why a question has nothing to say at a site.
#[derive(Debug)]
pub enum Stop {
    /// It is not a place that the question is about.
    Elsewhere,
    /// The dump does not hold the tensor of this kind.
    NotHeld(String),
    /// The dump holds it in another type than f32: an engine may compute in f64, what a question asks of is f32.
    OtherType {
        /// Its kind.
        kind: String,
        /// The type.
        ty: GgmlType,
    },
    /// Something that the candidates need cannot be known from this dump.
    NotKnown(String),
    /// The question does not apply to the model.
    NotApplicable(String),
    /// The file is damaged, or the two do not belong together.
    Failed(AskError),
}

macro_rules! failed {
    ($($error:ty),*) => {$(
        impl From<$error> for Stop {
            fn from(error: $error) -> Stop { Stop::Failed(error.into()) }
        }
    )*};
}

failed!(DumpError, HarnessError, ModelError, OracleError);

impl From<AskError> for Stop {
    fn from(error: AskError) -> Stop {
        Stop::Failed(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_held() -> Result<Trial, Stop> {
        Err(Stop::NotHeld("kq".to_owned()))
    }

    #[test]
    fn what_is_not_held_is_left_out_and_a_failure_is_not() {
        let id = crate::tensor::TensorId { step: 0, name: "kqv-3".to_owned(), occurrence: 0 };
        let reference = Held { id, shape: [1; 4], values: vec![1.0] };
        let trial =
            Trial { group: "values".to_owned(), reference, layer: Some(3), scores: Vec::new(), kept: None };
        assert_eq!(those_held([not_held(), Ok(trial.clone())]).unwrap(), std::slice::from_ref(&trial));
        assert!(matches!(those_held([not_held(), Err(Stop::Elsewhere)]), Err(Stop::NotHeld(_))));
        let failure = || Err(Stop::Failed(AskError::Unknown { got: String::new(), expected: String::new() }));
        assert!(matches!(those_held([Ok(trial), failure()]), Err(Stop::Failed(_))));
        assert!(matches!(those_held([]), Err(Stop::Elsewhere)));
    }
}
