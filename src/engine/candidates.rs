//! What each convention can be: the candidates, one enum per convention that no operator's type covers.

/// Declares an enum whose variants need no more explanation than one line.
macro_rules! candidates {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }
    )*};
}

candidates! {
    /// How a run of heads is reordered in front of an output projection.
    HeadOrder {
        /// As it is.
        Unchanged,
        /// `k + n_k r` to `k rep + r`.
        TiledToGrouped,
        /// `k rep + r` to `k + n_k r`.
        GroupedToTiled,
    }
    /// Whether alpha and beta see the transformed activation.
    ProjectionInput {
        /// The activation as it is.
        Plain,
        /// Through the transform of the folded weights.
        Rotated,
    }
    /// Which head of the fewer belongs to head h of the more.
    HeadMap {
        /// `h / rep`
        Blocked,
        /// `h % n`
        Interleaved,
    }
    /// How `attn_q` holds queries and gates.
    QGateSplit {
        /// Each head: its query, then its gate.
        PerHead,
        /// All queries, then all gates.
        Halves,
    }
    /// When q and k are normalised.
    QkNorm {
        /// Before the rotation.
        BeforeRotation,
        /// After the rotation.
        AfterRotation,
        /// Not at all.
        Absent,
    }
    /// How many elements of a head rotate.
    RopeDims {
        /// `rope.dimension_count`.
        FromFile,
        /// The whole head.
        WholeHead,
    }
    /// The base of the rotation's frequencies.
    RopeBase {
        /// `rope.freq_base`.
        FromFile,
        /// 10000.
        TenThousand,
    }
    /// A factor on attention scores or on the delta net's output.
    HeadScale {
        /// `1 / sqrt(head size)`
        InverseSqrt,
        /// `1 / head size`
        Inverse,
        /// 1
        One,
    }
    /// What the convolution's output goes through.
    Activation {
        /// `x / (1 + exp(-x))`
        Silu,
        /// `1 / (1 + exp(-x))`
        Sigmoid,
        /// The identity.
        Absent,
    }
    /// What the gate of attention goes through, and what it multiplies.
    AttnGate {
        /// `Wo (o * sigmoid(gate))`
        Sigmoid,
        /// `Wo (o * silu(gate))`
        Silu,
        /// `Wo o`
        Absent,
        /// `Wo o * sigmoid(gate)`, which needs `n_head * n_embd_head = n_embd`
        AfterOutput,
    }
    /// How the state of the delta net lies in a new context and in its cache.
    StateLayout {
        /// `[d_v, d_k]`, k contiguous.
        VMajor,
        /// `[d_k, d_v]`, v contiguous.
        KMajor,
    }
    /// Which of the delta net's gates are activated.
    Gates {
        /// Both.
        Activated,
        /// Alpha is taken as the log decay itself.
        RawAlpha,
        /// Beta is not passed through the sigmoid.
        RawBeta,
        /// Neither.
        Raw,
    }
    /// How the decay is formed.
    DecayForm {
        /// `exp(a softplus(alpha + dt))`
        ExpOfGate,
        /// `1 + a softplus(alpha + dt)`, its first-order expansion.
        OnePlusGate,
    }
    /// Where the current token lies in the convolution's window.
    ConvWindow {
        /// Last: a causal convolution.
        CurrentLast,
        /// First: the state comes after.
        CurrentFirst,
    }
    /// The order of q, k and v in the convolution's channels.
    QkvOrder {
        /// q, k, v
        Qkv,
        /// k, q, v
        Kqv,
        /// v, k, q (v first)
        Vkq,
    }
    /// How q and k of the delta net are normalised.
    QkL2Norm {
        /// `x / sqrt(sum x^2 + eps)`
        EpsInside,
        /// `x / max(sqrt(sum x^2), eps)`
        MaxNormEps,
        /// Not at all.
        Absent,
    }
    /// Over what the delta net's output is normalised.
    NormScope {
        /// Each head.
        PerHead,
        /// All heads together.
        Global,
    }
    /// The epsilon of the delta net's output norm.
    SsmNormEps {
        /// The model's epsilon.
        Plain,
        /// The epsilon times the head size.
        TimesHeadDim,
        /// The epsilon over the head size.
        OverHeadDim,
    }
    /// How z gates the delta net's output.
    SsmNormGate {
        /// Normalise, then multiply with silu(z).
        NormThenSilu,
        /// Multiply with silu(z), then normalise.
        GateFirst,
        /// Normalise, then multiply with sigmoid(z).
        NormThenSigmoid,
    }
    /// How a norm's weight is applied.
    NormWeight {
        /// `w x`
        Plain,
        /// `(1 + w) x`
        OnePlus,
    }
    /// Which half of the feed-forward net goes through silu.
    SwigluOrder {
        /// `silu(gate) up`
        GateActivated,
        /// `silu(up) gate`
        UpActivated,
    }
    /// Whether the transform is scaled to be orthonormal.
    FoldScale {
        /// `1 / sqrt(block)`
        Normalized,
        /// 1
        Unscaled,
    }
}
