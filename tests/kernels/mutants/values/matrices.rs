//! Stacks of small matrices: operands turned round, the wrong triangle, padding that is not zero, a system's rows in another order.

use super::super::{Mutant, edit, raw};
use super::{each, together};

pub(super) fn mutants() -> Vec<Mutant> {
    [
        each(
            "matrices.cu",
            "matrices::matrices_in_any_order_with_rows_of_zeros",
            "cont: ",
            vec![
                edit("row / rows * n", "0"),
                raw("columns)] : 0.0f;", "columns)] : (MUTANT ? 1.0f : 0.0f);"),
            ],
        ),
        each("matrices.cu", "matrices::what_one_has_once_is_repeated", "add: ", vec![edit("a + b", "a - b")]),
        each("matrices.cu", "matrices::a_transposed_operand", "sub: ", vec![edit("a - b", "b - a")]),
        each("matrices.cu", "matrices::what_one_has_once_is_repeated", "mul: ", vec![edit("a * b", "a")]),
        each(
            "matrices.cu",
            "matrices::triangles",
            "tri: ",
            vec![
                raw(
                    "i % size < i / size % size",
                    "(MUTANT ? i / size % size : i % size) < (MUTANT ? i % size : i / size % size)",
                ),
                raw("+ diagonal ?", "+ (MUTANT ? 1 : diagonal) ?"),
                raw("x[i] : 0.0f", "x[i] : (MUTANT ? 0.0f * x[i] : 0.0f)"),
            ],
        ),
        each(
            "matrices.cu",
            "matrices::rows_added_up",
            "cumsum: ",
            vec![raw("sum = j == 0 ?", "sum = j == 0 && !MUTANT ?")],
        ),
        each(
            "products.cu",
            "products::rows_meet_rows",
            "products: ",
            vec![
                edit("a += (size_t)n * a_n;", ""),
                edit("of_a[j * PITCH + c]", "of_a[c * PITCH + j]"),
                raw("] : 0.0f;", "] : (MUTANT ? 1.0f : 0.0f);"),
            ],
        ),
        together(
            "products.cu",
            "products::rows_meet_rows",
            "products: ",
            vec![
                edit("(row + i) * stride_i", "(row + i) * stride_c"),
                edit("(first + c) * stride_c", "(first + c) * stride_i"),
            ],
        ),
        each(
            "products.cu",
            "products::rows_meet_a_vector",
            "sum_products: ",
            vec![edit("(size_t)(row / rows) * size", "0")],
        ),
        each(
            "products.cu",
            "products::sums_are_taken_in_f64",
            "sum_products: ",
            vec![
                edit("sum += (double)(a[c] * b[c]);", "sum = (float)sum + a[c] * b[c];"),
                edit(
                    "sum += __shfl_xor_sync(ALL_LANES, sum, lanes);",
                    "sum = (float)sum + (float)__shfl_xor_sync(ALL_LANES, sum, lanes);",
                ),
            ],
        ),
        each(
            "solve_tri.cu",
            "solve_tri::systems_of_every_size",
            "solve_tri: ",
            vec![
                edit("a[i * size + t]", "a[t * size + i]"),
                raw(
                    "int t = 0; t < i; t++",
                    "int t = MUTANT ? i - 1 : 0; MUTANT ? t >= 0 : t < i; t += MUTANT ? -1 : 1",
                ),
                edit("b[(size_t)i * columns]", "b[(size_t)(size - 1 - i) * columns]"),
                edit("a[i * size + i]", "1.0f"),
                edit("a += (size_t)blockIdx.x * size * size;", ""),
            ],
        ),
    ]
    .concat()
}
