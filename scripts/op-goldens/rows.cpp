// NORM, RMS_NORM, L2_NORM, GROUP_NORM, SOFT_MAX, SUM_ROWS, MEAN, CUMSUM.

#include "goldens.h"

#include <cmath>

namespace {

// A causal mask {ne0, ne1, ne2, ne3}: 0, -inf behind the diagonal, and here and there a finite number.
ggml_tensor * mask(Inputs & in, Extents ne, ggml_type type) {
    ggml_tensor *      t = ggml_new_tensor(in.ctx, type, 4, ne.data());
    std::vector<float> values;
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        const int64_t row = i / ne[0] % ne[1], column = i % ne[0];
        values.push_back(column > row + 3 ? -INFINITY : static_cast<float>(-2 * (1 + in.uniform())));
    }
    ggml_quantize_chunk(type, values.data(), t->data, 0, ggml_nrows(t), ne[0], nullptr);
    return t;
}

ggml_tensor * with_sinks(ggml_tensor * node, ggml_tensor * sinks) {
    ggml_soft_max_add_sinks(node, sinks);
    return node;
}

} // namespace

void add_rows(Goldens & g) {
    for (float eps : { 1e-6f, 0.5f }) {
        const std::string with = " with epsilon " + std::to_string(eps);
        g.add("norm" + with, [=](Inputs & in) { return ggml_norm(in.ctx, in.random({ 37, 2, 1, 1 }), eps); });
        g.add("rms_norm" + with, [=](Inputs & in) { return ggml_rms_norm(in.ctx, in.random({ 37, 2, 1, 1 }), eps); });
        g.add("l2_norm" + with, [=](Inputs & in) { return ggml_l2_norm(in.ctx, in.random({ 5, 2, 2, 2 }, 0.3), eps); });
        g.add("group_norm" + with, [=](Inputs & in) { return ggml_group_norm(in.ctx, in.random({ 5, 3, 5, 2 }), 2, eps); });
    }
    g.add("norm, strided", [](Inputs & in) { return ggml_norm(in.ctx, in.padded({ 19, 2, 1, 2 }), 1e-5f); });
    g.add("norm of rows far from zero", [](Inputs & in) { return ggml_norm(in.ctx, in.between({ 67, 2, 1, 1 }, 99, 101), 1e-5f); });
    g.add("rms_norm, strided", [](Inputs & in) { return ggml_rms_norm(in.ctx, in.padded({ 19, 2, 1, 2 }), 1e-6f); });
    g.add("l2_norm, strided", [](Inputs & in) { return ggml_l2_norm(in.ctx, in.padded({ 19, 2, 1, 2 }), 1e-6f); });
    g.add("l2_norm, transposed", [](Inputs & in) {
        return ggml_l2_norm(in.ctx, ggml_transpose(in.ctx, in.random({ 3, 17, 2, 1 })), 1e-6f);
    });

    g.add("soft_max", [](Inputs & in) { return ggml_soft_max(in.ctx, in.random({ 21, 3, 2, 1 }, 4)); });
    g.add("soft_max, scaled and masked", [](Inputs & in) {
        return ggml_soft_max_ext(in.ctx, in.random({ 13, 5, 2, 1 }, 8), mask(in, { 13, 5, 1, 1 }, GGML_TYPE_F32), 0.37f, 0);
    });
    g.add("soft_max, a mask of f16 with more rows, one per sequence", [](Inputs & in) {
        return ggml_soft_max_ext(in.ctx, in.random({ 13, 3, 2, 2 }, 8), mask(in, { 13, 8, 1, 2 }, GGML_TYPE_F16), 0.37f, 0);
    });
    g.add("soft_max with ALiBi of six heads", [](Inputs & in) {
        return ggml_soft_max_ext(in.ctx, in.random({ 11, 2, 6, 1 }, 8), mask(in, { 11, 2, 1, 1 }, GGML_TYPE_F16), 0.25f, 8);
    });
    g.add("soft_max with sinks", [](Inputs & in) {
        return with_sinks(ggml_soft_max_ext(in.ctx, in.random({ 11, 2, 5, 1 }, 4), nullptr, 0.5f, 0),
                          in.floats({ 5, 1, 1, 1 }, { 3, -2, 0.25f, -90, 60 }));
    });
    g.add("soft_max with ALiBi, a mask and sinks", [](Inputs & in) {
        return with_sinks(
            ggml_soft_max_ext(in.ctx, in.random({ 11, 3, 3, 2 }, 8), mask(in, { 11, 4, 3, 1 }, GGML_TYPE_F32), 0.25f, 4),
            in.random({ 3, 1, 1, 1 }, 2));
    });
    g.add("soft_max of large logits", [](Inputs & in) { return ggml_soft_max(in.ctx, in.between({ 19, 2, 1, 1 }, 300, 330)); });

    g.add("sum_rows", [](Inputs & in) { return ggml_sum_rows(in.ctx, in.random({ 67, 3, 2, 1 })); });
    g.add("sum_rows, strided", [](Inputs & in) { return ggml_sum_rows(in.ctx, in.padded({ 17, 3, 2, 1 })); });
    g.add("mean", [](Inputs & in) { return ggml_mean(in.ctx, in.random({ 67, 3, 2, 1 })); });
    g.add("cumsum", [](Inputs & in) { return ggml_cumsum(in.ctx, in.random({ 64, 2, 1, 1 })); });
    g.add("cumsum of decays, strided", [](Inputs & in) {
        ggml_tensor * whole = in.between({ 64, 3, 1, 1 }, -3, 0);
        return ggml_cumsum(in.ctx, ggml_view_2d(in.ctx, whole, 61, 3, whole->nb[1], 2 * whole->nb[0]));
    });
}
