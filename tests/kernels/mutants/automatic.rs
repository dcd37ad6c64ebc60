//! Each barrier, and each guard of threads that have nothing to do, left out in turn: found in the text, so that none is forgotten.

use super::library::{Sources, occurrences};
use super::{Edit, Mutant, Noticed, With};

/// The tests that must see what is left out of a file. A file with a barrier or a guard that is not here is an error.
const TESTS: &[(&str, &[&str])] = &[
    ("argmax.cu", &["argmax::the_largest_of_every_row"]),
    ("attn_combine_fold.cu", &["attn_combine_fold::splits_combined_gated_and_folded_in_one_launch"]),
    (
        "attention.cu",
        &[
            "attention::scores_probabilities_and_what_is_read",
            "attention::values_are_rounded_to_what_a_cell_holds",
        ],
    ),
    ("common.cuh", &["norm::rms_norm_of_every_width"]),
    ("delta_net_chunked.cu", &["delta_net_chunked::any_number_of_tokens_and_sequences"]),
    ("delta_net_step.cu", &["delta_net_step::one_launch_has_the_bits_of_all_operators"]),
    (
        "flash_attn_decode.cu",
        &["flash_attn_decode::heads_and_types_of_every_kind", "flash_attn_decode::cells_of_every_number"],
    ),
    ("flash_attn_prefill.cu", &["flash_attn_prefill::tokens_of_every_number"]),
    ("four.cuh", &["norm::rms_norm_of_every_width"]),
    ("gated_delta_net.cu", &["gated_delta_net::heads_of_every_size"]),
    ("get_rows.cu", &["get_rows::rows_of_every_type_have_the_bits_of_the_decoder"]),
    ("get_rows_unfold.cu", &["get_rows_unfold::rows_and_the_inverse_of_their_fold_in_one_launch"]),
    ("glu.cu", &["glu::a_gated_norm_is_a_norm_a_weight_and_a_gate"]),
    ("kv_append.cu", &["kv_append::rows_go_to_their_cells"]),
    (
        "matrices.cu",
        &[
            "matrices::matrices_in_any_order_with_rows_of_zeros",
            "matrices::what_one_has_once_is_repeated",
            "matrices::triangles",
            "matrices::rows_added_up",
        ],
    ),
    ("mul_mat.cu", &["mul_mat::heights_tokens_a_scale_and_a_residual"]),
    ("mul_mat_q8_1.cu", &["mul_mat_q8_1::heights_tokens_a_scale_and_a_residual"]),
    ("mul_mat_vec.cu", &["mul_mat_vec::a_scale_and_a_residual"]),
    ("mul_mat_vec_digits.cu", &["mul_mat_vec_digits::widths_heights_and_tokens"]),
    ("mul_mat_vec_q8_1.cu", &["mul_mat_vec_q8_1::rows_longer_than_a_stage_a_scale_and_a_residual"]),
    ("mul_mat_vec_split.cu", &["mul_mat_vec_split::has_the_bits_of_the_product_with_the_file_s_blocks"]),
    ("norm.cu", &["norm::rms_norm_of_every_width"]),
    ("products.cu", &["products::rows_meet_rows", "products::rows_meet_a_vector"]),
    ("qkv_rope_append.cu", &["qkv_rope_append::one_launch_has_the_bits_of_all_operators"]),
    ("quantize_q8_1.cu", &["quantize_q8_1::codes_scales_and_sums_have_the_bits_of_the_rule"]),
    ("quantize_digits.cu", &["quantize_digits::digits_stand_for_the_activation"]),
    ("rope.cu", &["rope::heads_of_every_shape"]),
    ("rope.cuh", &["rope::heads_of_every_shape"]),
    ("solve_tri.cu", &["solve_tri::systems_of_every_size"]),
    ("ssm_conv.cu", &["ssm_conv::a_convolution_of_every_size"]),
    ("top_k.cu", &["top_k::the_largest_in_order"]),
    (
        "unary.cu",
        &[
            "unary::silu_of_every_size",
            "unary::sigmoid_of_every_size",
            "unary::exponentials_of_every_size",
            "unary::gates_in_one_launch_and_in_three",
        ],
    ),
    ("wht.cuh", &["fold::every_block_size"]),
];

/// Guards without which the same is computed.
const ONLY_SAVES_WORK: &[(&str, &str)] = &[
    ("argmax.cu", "threadIdx.x >= WARP"), // other warps would find the same and not store it
    ("flash_attn_decode.cu", "begin >= visible"), // a split without cells, which combine does not look at
    ("norm.cu", "first >= n"),            // chunks behind the end: 0 is read, nothing is stored
];

fn mutant(file: &str, at: usize, find: &str, with: With) -> Mutant {
    let tests = TESTS.iter().find(|(name, _)| *name == file);
    let (_, tests) = tests.unwrap_or_else(|| panic!("{file} has a `{find}` and no tests here"));
    let edit = Edit { find: find.to_owned(), times: 1, at: Some(at), with };
    let (file, tests) = (file.to_owned(), tests.to_vec());
    Mutant { file, edits: vec![edit], tests, noticed: Noticed::ByEmulator }
}

/// Barriers of a file: where, and the call.
fn barriers(text: &str) -> Vec<(usize, &'static str)> {
    let of = |call: &'static str| occurrences(text, call).into_iter().map(move |at| (at, call));
    of("__syncthreads()").chain(of("__syncwarp()")).collect()
}

/// Conditions under which a thread of several works, or an element is there.
const WORKS: &[&str] = &[
    "i < n",
    "i < total",
    "i + j < n",
    "t < n_tokens",
    "lane == 0",
    "threadIdx.x == 0",
    "threadIdx.x % WARP == 0",
];

/// Conditions of `if`, as far as they are guards: where, which, and whether threads, or turns of a loop, leave under it.
fn guards(text: &str) -> Vec<(usize, &str, bool)> {
    const IF: &str = "if (";
    let conditions = occurrences(text, IF).into_iter().filter_map(|at| {
        let from = at + IF.len();
        let line = text[from..].lines().next()?;
        let before = |end: &str| line.split_once(end).map(|(condition, _)| condition);
        let is_beyond = |condition: &&str| condition.contains(" >= ");
        let leaves = before(") return;").or(before(") continue;").or(before(") break;")).filter(is_beyond));
        let works = || before(") ").filter(|condition| WORKS.contains(condition));
        leaves
            .map(|condition| (from, condition, true))
            .or_else(|| works().map(|condition| (from, condition, false)))
    });
    conditions.collect()
}

pub(super) fn mutants(sources: &Sources) -> Vec<Mutant> {
    let mut all = Vec::new();
    for (file, text) in &sources.text {
        for (at, call) in barriers(text) {
            all.push(mutant(file, at, call, With::Raw(format!("(MUTANT ? (void)0 : {call})"))));
        }
        for (at, condition, leaves) in guards(text) {
            if ONLY_SAVES_WORK.contains(&(file.as_str(), condition)) {
                continue;
            }
            let with =
                if leaves { format!("({condition}) && !MUTANT") } else { format!("{condition} || MUTANT") };
            all.push(mutant(file, at, condition, With::Raw(with)));
        }
    }
    all
}

#[test]
fn barriers_and_guards_are_found() {
    let text = "// __syncthreads() if (a) return;\nif (i >= n) return; // x\n__syncthreads();\n\
                if (i < n) y[i] = 0;\nif (t >= n) break;\nif (odd) continue;\nif (a) {\n";
    assert_eq!(barriers(text), [(text.rfind("__syncthreads").unwrap(), "__syncthreads()")]);
    let guards: Vec<(&str, bool)> =
        guards(text).into_iter().map(|(_, guard, leaves)| (guard, leaves)).collect();
    assert_eq!(guards, [("i >= n", true), ("i < n", false), ("t >= n", true)]);
}

/// What is excused is there.
#[test]
fn guards_that_only_save_work_exist() {
    let sources = Sources::read();
    for (file, condition) in ONLY_SAVES_WORK {
        assert!(
            guards(&sources.text[*file]).iter().any(|(_, found, _)| found == condition),
            "{file}: {condition}"
        );
    }
}
