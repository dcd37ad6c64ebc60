//! The conventions of the forward pass that a reader of the weights cannot see, as one value.
//!
//! [`Conventions::default`] holds the verified ones. Every other candidate can be set, so that each mistake can be made
//! on purpose and shown to be caught. Names and candidates are those of the questions.

use super::EngineError;
use super::candidates::*;
use crate::model::{FoldOrder, PermutationTime};
use crate::ops::{DecayOrder, DeltaRule, RmsNormEps, RopePairing, RopeSections, TapOrder};

/// Declares [`Conventions`] from one table: field, type, candidates by name; the first is the verified one.
macro_rules! conventions {
    ($($(#[$doc:meta])* $field:ident: $t:ty { $first:literal => $default:expr, $($name:literal => $value:expr,)* })*) => {
        /// One candidate for each convention.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct Conventions { $($(#[$doc])* pub $field: $t,)* }

        impl Default for Conventions {
            fn default() -> Conventions { Conventions { $($field: $default,)* } }
        }

        impl Conventions {
            /// Every convention with the names of its candidates, the verified one first.
            pub const ALL: &'static [(&'static str, &'static [&'static str])] =
                &[$((stringify!($field), &[$first, $($name,)*]),)*];

            /// Sets one convention by the names of convention and candidate.
            ///
            /// # Errors
            /// If either name is unknown.
            pub fn set(&mut self, convention: &str, candidate: &str) -> Result<(), EngineError> {
                match (convention, candidate) {
                    $((stringify!($field), $first) => self.$field = $default,
                      $((stringify!($field), $name) => self.$field = $value,)*)*
                    _ => return Err(unknown(convention, candidate)),
                }
                Ok(())
            }

            /// The conventions that are not the verified ones, as `name = candidate`.
            pub fn departures(&self) -> Vec<String> {
                let mut departures = Vec::new();
                $($(if self.$field == $value {
                    departures.push(format!("{} = {}", stringify!($field), $name));
                })*)*
                departures
            }
        }
    };
}

conventions! {
    /// What an activation goes through in front of a folded weight.
    fold_order: FoldOrder {
        "signs_then_wht" => FoldOrder::SignsThenWht,
        "wht_then_signs" => FoldOrder::WhtThenSigns,
        "wht_only" => FoldOrder::WhtOnly,
        "signs_only" => FoldOrder::SignsOnly,
        "none" => FoldOrder::None,
    }
    /// The size of a Hadamard block; `None` is the file's.
    fold_block: Option<usize> {
        "from_file" => None,
        "64" => Some(64),
        "128" => Some(128),
        "256" => Some(256),
        "512" => Some(512),
        "1024" => Some(1024),
    }
    /// Whether the transform is orthonormal.
    fold_scale: FoldScale {
        "normalized" => FoldScale::Normalized,
        "unscaled" => FoldScale::Unscaled,
    }
    /// What a row of a rotated embedding table goes through.
    embedding_inverse_order: FoldOrder {
        "wht_then_signs" => FoldOrder::WhtThenSigns,
        "signs_then_wht" => FoldOrder::SignsThenWht,
        "wht_only" => FoldOrder::WhtOnly,
        "signs_only" => FoldOrder::SignsOnly,
        "none" => FoldOrder::None,
    }
    /// How v heads are reordered in front of a folded `ssm_out` (with `gdn_v_grouped`).
    ssm_out_permutation: HeadOrder {
        "tiled_to_grouped" => HeadOrder::TiledToGrouped,
        "grouped_to_tiled" => HeadOrder::GroupedToTiled,
        "none" => HeadOrder::Unchanged,
    }
    /// When they are.
    ssm_out_permutation_time: PermutationTime {
        "before_signs" => PermutationTime::BeforeSigns,
        "after_signs" => PermutationTime::AfterSigns,
    }
    /// How heads are reordered in front of `attn_output`.
    attn_output_permutation: HeadOrder {
        "none" => HeadOrder::Unchanged,
        "tiled_to_grouped" => HeadOrder::TiledToGrouped,
        "grouped_to_tiled" => HeadOrder::GroupedToTiled,
    }
    /// What alpha and beta are projected from.
    alpha_beta_input: ProjectionInput {
        "plain" => ProjectionInput::Plain,
        "rotated" => ProjectionInput::Rotated,
    }
    /// Which kv head q head h reads.
    attn_head_map: HeadMap {
        "blocked" => HeadMap::Blocked,
        "interleaved" => HeadMap::Interleaved,
    }
    /// How `attn_q` holds queries and gates.
    qgate_split: QGateSplit {
        "per_head" => QGateSplit::PerHead,
        "halves" => QGateSplit::Halves,
    }
    /// When q and k of attention are normalised.
    qk_norm: QkNorm {
        "before_rotation" => QkNorm::BeforeRotation,
        "after_rotation" => QkNorm::AfterRotation,
        "none" => QkNorm::Absent,
    }
    /// Which elements rotate together.
    rope_pairing: RopePairing {
        "half" => RopePairing::Half,
        "adjacent" => RopePairing::Adjacent,
    }
    /// How many elements rotate.
    rope_dims: RopeDims {
        "from_file" => RopeDims::FromFile,
        "whole_head" => RopeDims::WholeHead,
    }
    /// How the position channels are spread over the pairs; on text all channels hold the same position.
    rope_sections: RopeSections {
        "interleaved" => RopeSections::Interleaved,
        "contiguous" => RopeSections::Contiguous,
    }
    /// The base of the frequencies.
    rope_base: RopeBase {
        "from_file" => RopeBase::FromFile,
        "10000" => RopeBase::TenThousand,
    }
    /// The factor on attention scores, if the file gives none.
    attn_scale: HeadScale {
        "inverse_sqrt" => HeadScale::InverseSqrt,
        "inverse" => HeadScale::Inverse,
        "one" => HeadScale::One,
    }
    /// What the gate of attention goes through, and whether it comes before or after the output projection.
    attn_gate: AttnGate {
        "sigmoid" => AttnGate::Sigmoid,
        "silu" => AttnGate::Silu,
        "none" => AttnGate::Absent,
        "after_output" => AttnGate::AfterOutput,
    }
    /// Which k head v head h of the delta net reads.
    gdn_head_map: HeadMap {
        "interleaved" => HeadMap::Interleaved,
        "blocked" => HeadMap::Blocked,
    }
    /// How the delta net's state lies.
    state_layout: StateLayout {
        "v_major" => StateLayout::VMajor,
        "k_major" => StateLayout::KMajor,
    }
    /// Which gates are activated.
    gates: Gates {
        "activated" => Gates::Activated,
        "raw_alpha" => Gates::RawAlpha,
        "raw_beta" => Gates::RawBeta,
        "raw" => Gates::Raw,
    }
    /// How the decay is formed.
    decay_form: DecayForm {
        "exp_of_gate" => DecayForm::ExpOfGate,
        "one_plus_gate" => DecayForm::OnePlusGate,
    }
    /// What is written into the state.
    update_rule: DeltaRule {
        "delta" => DeltaRule::Delta,
        "linear" => DeltaRule::Linear,
    }
    /// When the state decays.
    update_order: DecayOrder {
        "decay_first" => DecayOrder::BeforePrediction,
        "decay_last" => DecayOrder::AfterUpdate,
    }
    /// The factor on the delta net's output.
    gdn_scale: HeadScale {
        "inverse_sqrt" => HeadScale::InverseSqrt,
        "inverse" => HeadScale::Inverse,
        "one" => HeadScale::One,
    }
    /// Where the current token lies in the convolution's window.
    conv_window: ConvWindow {
        "current_last" => ConvWindow::CurrentLast,
        "current_first" => ConvWindow::CurrentFirst,
    }
    /// The order of the convolution's taps.
    conv_kernel_order: TapOrder {
        "oldest_first" => TapOrder::OldestFirst,
        "newest_first" => TapOrder::NewestFirst,
    }
    /// What the convolution's output goes through.
    conv_activation: Activation {
        "silu" => Activation::Silu,
        "sigmoid" => Activation::Sigmoid,
        "none" => Activation::Absent,
    }
    /// The order of q, k and v behind the convolution.
    qkv_split_order: QkvOrder {
        "qkv" => QkvOrder::Qkv,
        "kqv" => QkvOrder::Kqv,
        "vkq" => QkvOrder::Vkq,
    }
    /// How q and k of the delta net are normalised.
    qk_l2_norm: QkL2Norm {
        "eps_inside" => QkL2Norm::EpsInside,
        "max_norm_eps" => QkL2Norm::MaxNormEps,
        "none" => QkL2Norm::Absent,
    }
    /// Over what the delta net's output is normalised.
    ssm_norm_scope: NormScope {
        "per_head" => NormScope::PerHead,
        "global" => NormScope::Global,
    }
    /// The epsilon of that norm.
    ssm_norm_eps: SsmNormEps {
        "plain" => SsmNormEps::Plain,
        "times_head_dim" => SsmNormEps::TimesHeadDim,
        "over_head_dim" => SsmNormEps::OverHeadDim,
    }
    /// How z gates the delta net's output.
    ssm_norm_gate: SsmNormGate {
        "norm_then_silu" => SsmNormGate::NormThenSilu,
        "gate_first" => SsmNormGate::GateFirst,
        "norm_then_sigmoid" => SsmNormGate::NormThenSigmoid,
    }
    /// Where the epsilon of a norm stands (all but the delta net's own, and not the l2 norm of its q and k).
    rms_norm_eps_place: RmsNormEps {
        "inside_root" => RmsNormEps::InsideRoot,
        "outside_root" => RmsNormEps::OutsideRoot,
        "max" => RmsNormEps::Max,
        "on_sum" => RmsNormEps::OnSum,
        "none" => RmsNormEps::Absent,
    }
    /// How a norm's weight is applied (all but the delta net's own).
    rms_norm_weight: NormWeight {
        "plain" => NormWeight::Plain,
        "one_plus" => NormWeight::OnePlus,
    }
    /// Which half of the feed-forward net goes through silu.
    swiglu_order: SwigluOrder {
        "gate_activated" => SwigluOrder::GateActivated,
        "up_activated" => SwigluOrder::UpActivated,
    }
}

fn unknown(convention: &str, candidate: &str) -> EngineError {
    let names = |list: Vec<&str>| list.join(", ");
    let (got, expected) = match Conventions::ALL.iter().find(|(name, _)| *name == convention) {
        Some((_, candidates)) => (
            format!("{convention}={candidate}"),
            format!("candidates of {convention}: {}", names(candidates.to_vec())),
        ),
        None => {
            let all = Conventions::ALL.iter().map(|(name, _)| *name).collect();
            (convention.to_owned(), format!("conventions: {}", names(all)))
        }
    };
    EngineError::UnknownConvention { got, expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_can_be_set_and_only_the_wrong_ones_depart() {
        for (name, candidates) in Conventions::ALL {
            for (i, candidate) in candidates.iter().enumerate() {
                let mut conventions = Conventions::default();
                conventions.set(name, candidate).unwrap();
                let departures = conventions.departures();
                assert_eq!(departures.len(), usize::from(i > 0), "{name} = {candidate}: {departures:?}");
            }
        }
    }

    #[test]
    fn unknown_names_are_refused_with_what_there_is() {
        let mut conventions = Conventions::default();
        let error = conventions.set("gdn_head_map", "spiral").unwrap_err().to_string();
        assert!(error.contains("interleaved, blocked"), "{error}");
        let error = conventions.set("no_such", "x").unwrap_err().to_string();
        assert!(error.contains("fold_order, "), "{error}");
    }
}
