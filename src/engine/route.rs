//! Which of llama.cpp's graphs of the delta net a ubatch gets, and what tensors around the recurrence are then called.

use super::{DeltaNetRoute, Dialect, Memory, Numerics};

/// How the recurrence of one ubatch is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Route {
    /// One operator, `build_delta_net_fused`.
    Fused,
    /// More than one token of each sequence, `build_delta_net_chunking`.
    Chunked,
    /// One token of each sequence, `build_delta_net_autoregressive`.
    Autoregressive,
}

impl Route {
    /// That of `n_tokens` tokens of each sequence (`build_delta_net`). Where earlier states are kept, llama.cpp always takes the
    /// operator (`build_recurrent_attn`).
    pub(super) fn of(numerics: Numerics, memory: Memory, n_tokens: usize) -> Route {
        match numerics.delta_net {
            DeltaNetRoute::Unfused if memory.n_rs_seq == 0 && n_tokens == 1 => Route::Autoregressive,
            DeltaNetRoute::Unfused if memory.n_rs_seq == 0 => Route::Chunked,
            _ => Route::Fused,
        }
    }

    /// What beta is called behind its sigmoid, if it has a name.
    pub(super) fn beta(self, dialect: Dialect) -> Option<&'static str> {
        if self == Route::Fused { dialect.beta_sigmoid } else { Some("b_in") }
    }

    /// What the normalised k is called.
    pub(super) fn k(self) -> &'static str {
        if self == Route::Chunked { "k_in" } else { "k_conv_predelta" }
    }

    /// What v is called.
    pub(super) fn v(self) -> &'static str {
        if self == Route::Chunked { "v_in" } else { "v_conv_predelta" }
    }
}
