//! The smallest input that separates a question's candidates.

/// A synthetic model and the tokens to run on it. The caller writes the model: a preset with some of its sizes changed and some
/// tensors scaled.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Probe {
    /// A preset of `synth`.
    pub preset: &'static str,
    /// The type of the matrices, or several that take turns (`f16,q8_0`).
    pub ty: &'static str,
    /// Sizes that differ from the preset's, by name (`n_rot`).
    pub sizes: &'static [(&'static str, usize)],
    /// `rope.dimension_sections`, if they differ.
    pub rope_sections: Option<[usize; 4]>,
    /// The epsilon of the norms, if it differs.
    pub eps: Option<f32>,
    /// Factors on tensors, by bare name (`token_embd`).
    pub scales: &'static [(&'static str, f32)],
    /// Token ids.
    pub tokens: &'static [u32],
    /// How many of them go into each step.
    pub schedule: &'static [usize],
    /// Why this separates them, for the reader.
    pub because: &'static str,
}

impl Probe {
    /// Two layers and a few tokens with a repetition.
    pub const PLAIN: Probe = Probe {
        preset: "nano-bonsai",
        ty: "q8_0",
        sizes: &[],
        rope_sections: None,
        eps: None,
        scales: &[],
        tokens: &[7, 11, 7, 5],
        schedule: &[3, 1],
        because: "several tokens, one of them twice, through one layer of each kind",
    };

    /// The same on a folded model: the smallest whose widths are at least two blocks.
    pub const FOLDED: Probe = Probe {
        preset: "micro-bonsai",
        ty: "pq2_0",
        because: "a folded model with three v heads for each k head, and every width at least two blocks",
        ..Probe::PLAIN
    };
}
