//! Where trees of llama.cpp compute the same and their graphs differ: in what they name, and in where they pick the rows with
//! outputs. An engine emits what the graph that it stands beside has.

/// How the graph of one tree shows what it computes; by default the pinned tree's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dialect {
    /// The columns that the convolution leaves behind.
    pub conv_state_last: &'static str,
    /// Beta behind its sigmoid, if the delta net is one operator; none where it has no name.
    pub beta_sigmoid: Option<&'static str>,
    /// The whole result of that operator; none where only the views of it have names.
    pub gated_delta_net: Option<ByTokens>,
    /// Where the rows of tokens with outputs are picked.
    pub output_rows: OutputRows,
}

/// Names by how many tokens of each sequence are run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByTokens {
    /// One.
    pub one: &'static str,
    /// More.
    pub more: &'static str,
}

impl ByTokens {
    /// That of `n_tokens` tokens of each sequence.
    pub fn of(self, n_tokens: usize) -> &'static str {
        if n_tokens == 1 { self.one } else { self.more }
    }
}

/// Where a graph picks the rows of tokens with outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputRows {
    /// Behind the last norm, which is named for all tokens.
    BehindLastNorm,
    /// In the last layer, in front of its residual.
    InLastLayer,
}

impl Dialect {
    /// b11434.
    pub const PINNED: Dialect = Dialect {
        conv_state_last: "conv_state_last",
        beta_sigmoid: Some("beta_sigmoid"),
        gated_delta_net: None,
        output_rows: OutputRows::BehindLastNorm,
    };

    /// 49bfddec, of March 2026 (`LLAMA_TENSOR_NAME_FGDN_AR` and `_CH` in llama-impl.h).
    pub const MARCH_2026: Dialect = Dialect {
        conv_state_last: "last_conv_states",
        beta_sigmoid: None,
        gated_delta_net: Some(ByTokens { one: "__fgdn_ar__", more: "__fgdn_ch__" }),
        output_rows: OutputRows::InLastLayer,
    };

    /// All that are known, the pinned tree's first. Trees between two of them mix their ways, so each field is chosen by itself.
    pub const ALL: &'static [Dialect] = &[Dialect::PINNED, Dialect::MARCH_2026];
}

impl Default for Dialect {
    fn default() -> Dialect {
        Dialect::PINNED
    }
}
