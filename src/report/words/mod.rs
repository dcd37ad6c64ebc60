//! Numbers, places and sentences that several formats share.

mod ask;
mod ask_json;
mod bench;
mod bench_json;
mod bits;
mod diagnosis;
mod diagnosis_json;
mod invariants;
mod markup;
mod number;
mod replay;
mod replay_json;
mod run_json;
mod sentence;
mod sparkline;
mod steps;
mod tokens;

#[cfg(test)]
pub(super) mod example;

pub use ask::{AskOptions, answer_table, ask_line, brief_table};
pub use ask_json::ask_json;
pub use bench::{bench_kernels_text, bench_model_text};
pub use bench_json::{bench_kernels_json, bench_model_json};
pub use bits::{bits_line, bits_table};
pub use diagnosis::{diagnosis_of_dumps, diagnosis_of_pair};
pub use diagnosis_json::{diagnosis_json, diagnosis_of_pair_json};
pub use invariants::{invariants_json, invariants_table};
pub use replay::{replay_line, replay_table};
pub use replay_json::replay_json;
pub use sentence::{first_difference, summary_line};
pub use steps::{Step, StepToken};

pub(super) use diagnosis::looks_like;
pub(super) use markup::escape;
pub(super) use number::{cosine, count, decimal, finite, index, scientific, share, units};
pub(super) use run_json::{LogitsJson, StepJson, logits_json, steps_json};
pub(super) use sentence::{floor_line, notes, place, reason, shape, tensor_name, verdict};
pub(super) use sparkline::bars;
pub(super) use steps::step_view;
pub(super) use tokens::{logits_line, token_rows};
