//! Mistakes in the handling of state that engines really make. An engine that is told to makes one on purpose, so that each
//! can be shown to be caught.

use std::fmt;

use super::EngineError;

/// Declares [`StateFault`] with its names and one line each.
macro_rules! faults {
    ($($name:literal $variant:ident: $line:literal,)*) => {
        /// A mistake in the handling of state.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum StateFault { $(#[doc = $line] $variant,)* }

        impl StateFault {
            /// Every fault.
            pub const ALL: &'static [StateFault] = &[$(StateFault::$variant,)*];

            /// What it is called on the command line.
            pub fn name(self) -> &'static str {
                match self { $(StateFault::$variant => $name,)* }
            }

            /// What goes wrong, in one line.
            pub fn line(self) -> &'static str {
                match self { $(StateFault::$variant => $line,)* }
            }
        }
    };
}

faults! {
    "conv_column" ConvColumn: "the convolution's columns are kept one token too old",
    "not_reset" NotReset: "forgetting all sequences leaves the recurrent states as they are",
    "other_sequence" OtherSequence: "with several sequences in a ubatch, each reads the recurrent state of the next",
    "chunk_boundary" ChunkBoundary: "a chunk reads the state from before the chunk in front of it (chunked route)",
    "decay_after_update" DecayAfterUpdate: "the state decays after it is updated (token by token)",
    "padding_counted" PaddingCounted: "the padding of the last chunk decays the state (chunked route)",
    "position_after_boundary" PositionAfterBoundary: "positions behind the first ubatch of a sequence are one too high",
    "kv_slot_reused" KvSlotReused: "the first token of a later ubatch takes the cell of the last token before it",
    "state_bf16" StateBf16: "the recurrent state is rounded to bf16 after each ubatch",
}

impl fmt::Display for StateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for StateFault {
    type Err = EngineError;

    fn from_str(name: &str) -> Result<StateFault, EngineError> {
        StateFault::ALL.iter().copied().find(|fault| fault.name() == name).ok_or_else(|| {
            let names: Vec<&str> = StateFault::ALL.iter().map(|fault| fault.name()).collect();
            EngineError::UnknownFault { got: name.to_owned(), expected: names.join(", ") }
        })
    }
}
