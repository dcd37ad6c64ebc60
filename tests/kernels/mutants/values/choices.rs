//! Largest values, copies and sums.

use super::super::{Mutant, edit};
use super::each;

pub(super) fn mutants() -> Vec<Mutant> {
    [
        each("binary.cu", "binary::rows_times_a_vector", "mul_row", vec![edit("w[(i + j) % n]", "w[i % n]")]),
        each("argmax.cu", "argmax::the_largest_of_every_row", "argmax: ", vec![edit("i + j < end", "true")]),
        each(
            "candidate.cuh",
            "argmax::the_largest_of_every_row",
            "argmax: ",
            vec![
                edit("__float_as_uint(x + 0.0f)", "__float_as_uint(x)"),
                edit(
                    "__shfl_xor_sync(ALL_LANES, best, lanes)",
                    "__shfl_xor_sync(ALL_LANES, best, lanes / 2)",
                ),
            ],
        ),
        each(
            "top_k.cu",
            "top_k::the_largest_in_order",
            "top_k: ",
            vec![edit("index_of(items[i])", "index_of(items[k - 1 - i])")],
        ),
        each("copy.cu", "copy::rows_of_a_view", "copy_rows", vec![edit("i / n * (stride - n)", "0")]),
    ]
    .concat()
}
