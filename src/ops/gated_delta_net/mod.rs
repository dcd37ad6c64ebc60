//! GATED_DELTA_NET: the recurrence of the delta net, by the three routes that llama.cpp has.
//!
//! | route | in llama.cpp | here |
//! |---|---|---|
//! | token by token | the fused operator GATED_DELTA_NET, for any number of tokens | [`gated_delta_net`] |
//! | in chunks of 64 | `build_delta_net_chunking`, out of plain operators, for more than one token per sequence | [`delta_net_chunked`] |
//! | one token | `build_delta_net_autoregressive`, out of plain operators | [`delta_net_autoregressive`] |
//!
//! All three compute the same function. The last two are graphs whose inner tensors have names, which [`DeltaSteps`] receives, and
//! take q and k repeated to the heads of v (models/qwen35.cpp repeats them if it does not use the fused operator).

mod autoregressive;
mod chunked;
mod matrices;
mod steps;
mod token_by_token;

pub use autoregressive::delta_net_autoregressive;
pub use chunked::{DELTA_CHUNK, delta_net_chunked};
pub use matrices::{products, solved};
pub use steps::{DeltaInputs, DeltaSteps, NoSteps};
pub use token_by_token::{DecayOrder, DeltaGates, DeltaRule, gated_delta_net};
