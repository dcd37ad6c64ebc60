// CONT, DUP, CPY, RESHAPE, CONCAT, REPEAT, PAD, TRI, DIAG, FILL, SET, GET_ROWS, SET_ROWS: nothing is added.

#include "goldens.h"

void add_moves(Goldens & g) {
    g.add("cont, permuted", [](Inputs & in) { return ggml_cont(in.ctx, ggml_permute(in.ctx, in.random({ 5, 3, 2, 2 }), 0, 2, 1, 3)); });
    g.add("cont, transposed", [](Inputs & in) { return ggml_cont(in.ctx, ggml_transpose(in.ctx, in.random({ 5, 3, 2, 1 }))); });
    g.add("cont to another shape", [](Inputs & in) { return ggml_cont_2d(in.ctx, in.padded({ 4, 3, 2, 1 }), 6, 4); });
    g.add("dup", [](Inputs & in) { return ggml_dup(in.ctx, in.padded({ 5, 3, 2, 1 })); });
    g.add("cpy to another shape, strided", [](Inputs & in) { return ggml_cpy(in.ctx, in.random({ 6, 4, 1, 1 }), in.padded({ 4, 3, 2, 1 })); });
    g.add("reshape", [](Inputs & in) { return ggml_reshape_3d(in.ctx, in.random({ 6, 4, 1, 1 }), 2, 3, 4); });
    // Of 16777217, which f32 does not hold, integers keep every digit.
    g.add("cont of integers", [](Inputs & in) { return ggml_cont(in.ctx, ggml_transpose(in.ctx, in.ints({ 3, 2, 1, 1 }, { 5, -1, 0, 16777217, 7, 2 }))); });
    g.add("cpy of numbers to integers", [](Inputs & in) { return ggml_cast(in.ctx, in.floats({ 5, 1, 1, 1 }, { 1.9f, -1.9f, 0, 3, 1e6f }), GGML_TYPE_I32); });
    g.add("cpy of integers to numbers", [](Inputs & in) { return ggml_cast(in.ctx, in.ints({ 4, 1, 1, 1 }, { 5, -1, 0, 16777217 }), GGML_TYPE_F32); });
    g.add("concat of integers", [](Inputs & in) {
        return ggml_concat(in.ctx, in.ints({ 2, 2, 1, 1 }, { 1, 2, 3, 16777217 }), in.ints({ 1, 2, 1, 1 }, { 5, 6 }), 0);
    });
    for (int dim = 0; dim < 4; dim++) {
        g.add("concat along " + std::to_string(dim), [=](Inputs & in) {
            Extents a{ 3, 2, 2, 1 }, b{ 3, 2, 2, 1 };
            b[dim] += 2;
            return ggml_concat(in.ctx, in.random(a), in.padded(b), dim);
        });
    }
    g.add("repeat in every dimension", [](Inputs & in) { return ggml_repeat_4d(in.ctx, in.random({ 3, 2, 1, 2 }), 6, 4, 3, 4); });
    g.add("repeat of a row, strided", [](Inputs & in) { return ggml_repeat_4d(in.ctx, in.padded({ 1, 5, 2, 1 }), 5, 5, 2, 1); });

    g.add("pad at the end", [](Inputs & in) {
        return ggml_pad(in.ctx, ggml_permute(in.ctx, in.random({ 5, 2, 3, 2 }), 0, 2, 1, 3), 0, 4, 0, 0);
    });
    g.add("pad at both ends of every dimension", [](Inputs & in) {
        return ggml_pad_ext(in.ctx, in.random({ 4, 3, 2, 2 }), 1, 2, 2, 1, 0, 1, 1, 0);
    });
    g.add("pad in a circle", [](Inputs & in) { return ggml_pad_ext_circular(in.ctx, in.padded({ 4, 3, 2, 1 }), 2, 3, 1, 4, 0, 1, 1, 0); });

    for (int type = 0; type < 4; type++) {
        g.add("tri " + std::to_string(type), [=](Inputs & in) { return ggml_tri(in.ctx, in.random({ 7, 7, 2, 1 }), static_cast<ggml_tri_type>(type)); });
    }
    g.add("diag", [](Inputs & in) { return ggml_diag(in.ctx, in.random({ 5, 1, 2, 2 })); });
    g.add("fill", [](Inputs & in) { return ggml_fill(in.ctx, in.random({ 5, 2, 1, 1 }), -1.25f); });
    g.add("fill of a view", [](Inputs & in) { return ggml_fill(in.ctx, ggml_view_1d(in.ctx, in.random({ 5, 5, 2, 1 }), 5, 0), 1); });
    g.add("set one matrix in place", [](Inputs & in) {
        ggml_tensor * a = in.random({ 5, 3, 4, 2 });
        return ggml_set_inplace(in.ctx, a, in.random({ 5, 3, 1, 2 }), a->nb[1], a->nb[2], a->nb[3], 2 * a->nb[2]);
    });
    g.add("set a part of each row", [](Inputs & in) {
        ggml_tensor * a = in.random({ 7, 4, 2, 1 });
        return ggml_set(in.ctx, a, in.padded({ 3, 2, 2, 1 }), 2 * a->nb[1], a->nb[2], a->nb[3], a->nb[1] + 2 * a->nb[0]);
    });

    for (ggml_type type : { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_1 }) {
        g.add(std::string("get_rows of ") + ggml_type_name(type), [=](Inputs & in) {
            return ggml_get_rows(in.ctx, in.random({ 32, 5, 1, 1 }, 1, type), in.ints({ 3, 1, 1, 1 }, { 4, 0, 4 }));
        });
    }
    g.add("get_rows of integers", [](Inputs & in) {
        return ggml_get_rows(in.ctx, in.ints({ 2, 3, 1, 1 }, { 1, 2, -3, 16777217, 5, 6 }), in.ints({ 2, 1, 1, 1 }, { 1, 0 }));
    });
    g.add("get_rows of each matrix", [](Inputs & in) {
        return ggml_get_rows(in.ctx, in.padded({ 5, 4, 2, 2 }), in.ints({ 3, 2, 2, 1 }, { 3, 0, 1, 2, 2, 0, 1, 3, 0, 0, 1, 2 }));
    });
    g.add("set_rows", [](Inputs & in) {
        return ggml_set_rows(in.ctx, in.random({ 6, 5, 1, 1 }), in.padded({ 6, 2, 1, 1 }), in.longs({ 2, 1, 1, 1 }, { 4, 1 }));
    });
}
