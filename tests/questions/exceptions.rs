//! Candidates that an engine is made to run by something else than the convention of their question's name.

use lockstep::engine::{ActivationMode, DeltaNetRoute};
use lockstep::ops::exact::{ActivationRounding, CpuKernel};
use lockstep::tensor::GgmlType;

use crate::common::{Copy, recoded};
use crate::run::With;

const NOTHING: With = With::Conventions(&[]);
const F16: With = With::Numerics(|numerics| {
    (numerics.type_k, numerics.type_v) = (GgmlType::F16, GgmlType::F16);
});
const BF16: With = With::Numerics(|numerics| {
    (numerics.type_k, numerics.type_v) = (GgmlType::BF16, GgmlType::BF16);
});

/// Another reader of the codes.
const RECODED: With = With::Model(recoded);

/// An engine that rounds every activation in one way, whatever the type of the weights.
macro_rules! rounded {
    ($to:expr) => {
        With::Numerics(|numerics| numerics.activations = ActivationMode::Always($to))
    };
}

/// Question, candidate, and how.
pub(crate) const EXCEPTIONS: &[(&str, &str, With)] = &[
    (
        "ssm_out_permutation",
        "tiled_to_grouped_after_signs",
        With::Conventions(&[("ssm_out_permutation_time", "after_signs")]),
    ),
    (
        "ssm_out_permutation",
        "grouped_to_tiled_after_signs",
        With::Conventions(&[
            ("ssm_out_permutation", "grouped_to_tiled"),
            ("ssm_out_permutation_time", "after_signs"),
        ]),
    ),
    ("kv_type", "f32", NOTHING),
    ("kv_type", "f16", F16),
    ("kv_type", "bf16", BF16),
    ("gdn_route", "token_by_token", NOTHING),
    ("gdn_route", "chunked", With::Numerics(|numerics| numerics.delta_net = DeltaNetRoute::Unfused)),
    ("view_layout", "strided", NOTHING),
    ("view_layout", "packed", With::Dump(packed_views)),
    ("activation_rounding", "f32", NOTHING),
    ("activation_rounding", "f16", rounded!(ActivationRounding::F16)),
    ("activation_rounding", "bf16", rounded!(ActivationRounding::Bf16)),
    ("activation_rounding", "q8_0", rounded!(ActivationRounding::Q8_0(CpuKernel::X86))),
    ("activation_rounding", "q8_1", rounded!(ActivationRounding::Q8_1(CpuKernel::X86))),
    ("activation_rounding", "q8_K", rounded!(ActivationRounding::Q8K)),
    ("code_map", "as_specified", NOTHING),
    ("code_map", "from_zero", RECODED),
    ("code_map", "signed", RECODED),
    ("code_map", "excess", RECODED),
    ("code_map", "symmetric", RECODED),
    ("code_map", "reversed", RECODED),
    ("code_order", "as_stored", NOTHING),
    ("code_order", "byte_by_byte", RECODED),
    ("code_order", "planes", RECODED),
    ("code_order", "digits_reversed", RECODED),
    ("code_order", "bytes_swapped", RECODED),
    ("code_order", "reversed", RECODED),
    // The same as the first by algebra: what the engine does anyway.
    ("ssm_norm_eps", "unscaled_times_head_dim", NOTHING),
];

/// Candidates that cannot be on the model of the probe, with the reason; each has a test of its own.
pub(crate) const ELSEWHERE: &[(&str, &str, &str)] =
    &[("fold_block", "from_file", "it is there only for a block that is none of the others")];

/// The views of the delta net's heads and of attention's queries, stored as the memory of their roots lies.
fn packed_views(copy: &mut Copy) {
    const VIEWS: &[(&str, &str, usize)] = &[
        // name, root, and how many heads of the root's row lie in front of it
        ("q_conv", "conv_output_silu", 0),
        ("k_conv", "conv_output_silu", 1),
        ("v_conv_predelta", "conv_output_silu", 2),
        ("Qcur_reshaped", "Qcur_full", 0),
    ];
    let names: Vec<(u32, String)> =
        copy.manifest.nodes.iter().map(|node| (node.step, node.name.clone())).collect();
    for (step, name) in names {
        let Some((kind, layer)) = name.rsplit_once('-') else { continue };
        let Some(&(_, root, offset)) = VIEWS.iter().find(|(view, ..)| *view == kind) else { continue };
        let memory = copy.values(step, &format!("{root}-{layer}"));
        // q and k are equally wide, and v begins behind both.
        let width = match kind {
            "Qcur_reshaped" => 0,
            _ => copy.node(step, &format!("q_conv-{layer}")).ne[..2].iter().product::<u64>() as usize,
        };
        copy.change(step, &name, |values| {
            // What lies behind the root's end is left as it was.
            let packed = memory.iter().skip(offset * width);
            values.iter_mut().zip(packed).for_each(|(value, &packed)| *value = packed);
        });
    }
}
