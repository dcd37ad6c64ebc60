//! Shapes of synthetic models: every relation of Ternary-Bonsai-2-27B in small, and one for quantised types.
//!
//! | relation | 27B | micro, mini |
//! |---|---|---|
//! | activation widths (n_embd, d_inner = q width, n_ff), each at least two blocks | 5120, 6144, 17408 by 1024 | 256, 384, 512 by 128 |
//! | q heads for each kv head | 24 / 4 = 6 | 12 / 2 = 6 |
//! | v heads for each k head | 48 / 16 = 3 | 24 / 8 = 3 |
//! | rotated part of a head, three sections | 64 of 256; 11, 11, 10 pairs | 16 of 32; 3, 3, 2 pairs |
//! | head sizes of attention and delta net differ | 256, 128 | 32, 16 |
//! | attention every | 4 layers | 4 layers |

/// The shape of a synthetic model.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // llama.cpp's own names
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line for `synth --help`.
    pub about: &'static str,
    pub n_layer: usize,
    pub full_attention_interval: usize,
    pub n_vocab: usize,
    pub n_embd: usize,
    pub n_ff: usize,
    pub n_head: usize,
    pub n_head_kv: usize,
    pub n_embd_head: usize,
    pub n_rot: usize,
    pub rope_sections: [usize; 4],
    pub ssm_d_conv: usize,
    pub ssm_d_state: usize,
    pub ssm_dt_rank: usize,
    pub ssm_n_group: usize,
    /// Elements of a Hadamard block.
    pub fold_block: usize,
}

const MICRO: Preset = Preset {
    name: "micro-bonsai",
    about: "4 layers (3 delta net, 1 attention), 1 MB",
    n_layer: 4,
    full_attention_interval: 4,
    n_vocab: 512,
    n_embd: 256,
    n_ff: 512,
    n_head: 12,
    n_head_kv: 2,
    n_embd_head: 32,
    n_rot: 16,
    rope_sections: [3, 3, 2, 0],
    ssm_d_conv: 4,
    ssm_d_state: 16,
    ssm_dt_rank: 24,
    ssm_n_group: 8,
    fold_block: 128,
};

const MINI: Preset = Preset {
    name: "mini-bonsai",
    about: "64 layers (48 delta net, 16 attention), 14 MB",
    n_layer: 64,
    ..MICRO
};

/// Not a small 27B: every matrix that a fold would take has rows of 256 or 512, so that types with blocks of 256 are stored as
/// they are. Two layers are the least that llama.cpp runs of a hybrid.
const NANO: Preset = Preset {
    name: "nano-bonsai",
    about: "2 layers (1 delta net, 1 attention), rows of 256 and 512 for quantised types",
    n_layer: 2,
    full_attention_interval: 2,
    n_vocab: 256,
    n_head: 4,
    n_embd_head: 64,
    n_rot: 32,
    rope_sections: [6, 6, 4, 0],
    ssm_d_state: 8,
    ssm_dt_rank: 32,
    ..MICRO
};

/// Every preset.
pub const PRESETS: &[Preset] = &[MICRO, MINI, NANO];

/// The preset with this name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// Width of all v heads of the delta net together.
    pub fn ssm_d_inner(&self) -> usize {
        self.ssm_dt_rank * self.ssm_d_state
    }

    /// The activation widths that need signs, ascending.
    pub fn fold_widths(&self) -> Vec<usize> {
        let mut widths = vec![self.n_embd, self.n_head * self.n_embd_head, self.ssm_d_inner(), self.n_ff];
        widths.sort_unstable();
        widths.dedup();
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_relation_of_the_27b_holds_in_small() {
        for p in [&MICRO, &MINI] {
            let widths = p.fold_widths();
            assert_eq!(widths.len(), 3, "{}", p.name);
            assert!(widths.iter().all(|w| w.is_multiple_of(p.fold_block) && w / p.fold_block >= 2));
            assert!(p.fold_block.is_multiple_of(128));
            assert_eq!((p.ssm_dt_rank / p.ssm_n_group, p.n_head / p.n_head_kv), (3, 6));
            assert!(p.n_head_kv >= 2 && p.n_rot < p.n_embd_head);
            assert_eq!(p.rope_sections.iter().filter(|&&s| s > 0).count(), 3);
            assert_eq!(p.rope_sections.iter().sum::<usize>(), p.n_rot / 2);
            assert_eq!(p.n_head * p.n_embd_head, p.ssm_d_inner());
        }
    }

    #[test]
    fn blocks_of_256_divide_every_row_of_nano() {
        assert_eq!(NANO.fold_widths(), [256, 512]);
        assert_eq!(NANO.rope_sections.iter().sum::<usize>(), NANO.n_rot / 2);
        assert_eq!(NANO.n_head * NANO.n_embd_head, NANO.ssm_d_inner());
    }
}
