//! How the state of several sequences is kept and changed, in llama.cpp's terms.

/// How an engine keeps what sequences leave behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// Whether all sequences share one stream of KV cells (`kv_unified`), instead of one stream each.
    pub kv_unified: bool,
    /// By how many tokens a recurrent state can be taken back (`n_rs_seq`): that many earlier ones are kept.
    pub n_rs_seq: usize,
}

/// A change of what sequences hold, between two steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateChange {
    /// Forgets all sequences (`llama_memory_clear`).
    Clear,
    /// Takes the tokens of a sequence from a position on back (`llama_memory_seq_rm` up to the end).
    Remove {
        /// The sequence.
        sequence: i32,
        /// The first position that goes; 0 forgets the sequence.
        from: i64,
    },
    /// Makes a sequence hold what another one holds (`llama_memory_seq_cp` of everything).
    Copy {
        /// The one that holds it.
        from: i32,
        /// The one that shall hold it too.
        to: i32,
    },
}
