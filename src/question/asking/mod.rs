//! How a question is asked: what it may look at, how its candidates are scored, and what the answer is.

mod answer;
mod attention;
mod codes;
mod delta_net;
mod diagnosis;
mod embedding;
mod epsilon;
mod error;
mod gated_norm;
mod held;
mod misread;
mod norm;
mod operator;
mod probe;
mod product;
mod rotation;
mod rounding;
mod site;
mod subject;
mod trial;

pub use answer::{Answer, Group, Outcome, TrialScores, Verdict};
pub use error::AskError;
pub use probe::Probe;
pub use site::Site;
pub use subject::Subject;
pub use trial::{Looked, Stop, Trial};

pub(super) use answer::sort;
pub(super) use attention::{HeadMap, blocked};
pub(super) use delta_net::Rules;
pub(super) use diagnosis::diagnose;
pub(super) use gated_norm::{normalised, solved};
pub(super) use held::{Held, packed};
pub(super) use misread::{moved, relevelled, reordered, sorted};
pub(super) use norm::weighted;
pub(super) use operator::{swiglu, times, unary};
pub(super) use product::{Product, tracked};
pub(super) use trial::those_held;
