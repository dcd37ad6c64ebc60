// MUL_MAT, MUL_MAT_ID, SOLVE_TRI, SSM_CONV, SSM_SCAN, GATED_DELTA_NET.

#include "goldens.h"

#include <cmath>

namespace {

// Rows of length 1, as the delta net normalises its keys.
ggml_tensor * unit(Inputs & in, Extents ne) {
    ggml_tensor * t    = in.random(ne);
    float *       data = static_cast<float *>(t->data);
    for (int64_t row = 0; row < ggml_nrows(t); row++, data += ne[0]) {
        double sum = 0;
        for (int64_t i = 0; i < ne[0]; i++) {
            sum += static_cast<double>(data[i]) * data[i];
        }
        for (int64_t i = 0; i < ne[0]; i++) {
            data[i] = static_cast<float>(data[i] / std::sqrt(sum));
        }
    }
    return t;
}

// A lower triangular matrix whose diagonal is 1, or at least 0.5 in size; above it are numbers that must not matter.
ggml_tensor * triangular(Inputs & in, Extents ne, double below, bool ones) {
    ggml_tensor * t    = in.random(ne, below);
    float *       data = static_cast<float *>(t->data);
    for (int64_t i = 0; i < ggml_nelements(t); i += ne[0] + 1) {
        if (i % (ne[0] * ne[1]) == 0 || i % (ne[0] * ne[1]) / ne[0] == i % ne[0]) {
            const double size = 0.5 + (in.uniform() + 1) / 2;
            data[i]           = ones ? 1 : static_cast<float>(in.uniform() < 0 ? -size : size);
        }
    }
    return t;
}

} // namespace

void add_matrices(Goldens & g) {
    g.add("mul_mat", [](Inputs & in) { return ggml_mul_mat(in.ctx, in.random({ 37, 5, 1, 1 }), in.random({ 37, 3, 1, 1 })); });
    g.add("mul_mat, each matrix for two", [](Inputs & in) {
        return ggml_mul_mat(in.ctx, in.random({ 19, 3, 2, 1 }), in.random({ 19, 2, 4, 2 }));
    });
    g.add("mul_mat, permuted", [](Inputs & in) {
        return ggml_mul_mat(in.ctx, ggml_permute(in.ctx, in.random({ 8, 2, 5, 1 }), 0, 2, 1, 3),
                            ggml_permute(in.ctx, in.random({ 8, 4, 3, 1 }), 0, 2, 1, 3));
    });
    for (ggml_type type : { GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_1 }) {
        g.add(std::string("mul_mat of ") + ggml_type_name(type), [=](Inputs & in) {
            return ggml_mul_mat(in.ctx, in.random({ 64, 3, 1, 1 }, 1, type), in.random({ 64, 1, 1, 1 }, 3));
        });
    }
    for (ggml_type type : { GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_TQ2_0 }) {
        g.add(std::string("mul_mat of ") + ggml_type_name(type), [=](Inputs & in) {
            return ggml_mul_mat(in.ctx, in.random({ 256, 3, 1, 1 }, 1, type), in.random({ 256, 1, 1, 1 }, 3));
        });
    }

    g.add("mul_mat_id", [](Inputs & in) {
        return ggml_mul_mat_id(in.ctx, in.random({ 37, 3, 4, 1 }), in.random({ 37, 1, 3, 1 }),
                               in.ints({ 2, 3, 1, 1 }, { 2, 0, 3, 2, 1, 3 }));
    });
    g.add("mul_mat_id, a column for each expert, strided", [](Inputs & in) {
        return ggml_mul_mat_id(in.ctx, in.padded({ 19, 3, 4, 1 }), in.padded({ 19, 2, 3, 1 }),
                               in.ints({ 2, 3, 1, 1 }, { 2, 0, 3, 2, 1, 3 }));
    });
    g.add("mul_mat_id, two columns for four experts", [](Inputs & in) {
        return ggml_mul_mat_id(in.ctx, in.random({ 8, 3, 5, 1 }), in.random({ 8, 2, 2, 1 }),
                               in.ints({ 4, 2, 1, 1 }, { 4, 0, 3, 1, 1, 2, 4, 0 }));
    });
    for (ggml_type type : { GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_1 }) {
        g.add(std::string("mul_mat_id of ") + ggml_type_name(type), [=](Inputs & in) {
            return ggml_mul_mat_id(in.ctx, in.random({ 64, 2, 3, 1 }, 1, type), in.random({ 64, 1, 2, 1 }, 3),
                                   in.ints({ 2, 2, 1, 1 }, { 2, 0, 1, 2 }));
        });
    }
    g.add("mul_mat_id of q4_K, nine columns of one expert", [](Inputs & in) {
        return ggml_mul_mat_id(in.ctx, in.random({ 256, 3, 2, 1 }, 1, GGML_TYPE_Q4_K), in.random({ 256, 1, 10, 1 }, 3),
                               in.ints({ 1, 10, 1, 1 }, { 1, 1, 1, 1, 0, 1, 1, 1, 1, 1 }));
    });

    g.add("solve_tri", [](Inputs & in) {
        return ggml_solve_tri(in.ctx, triangular(in, { 9, 9, 2, 2 }, 0.5, false), in.random({ 5, 9, 2, 2 }), true, true, false);
    });
    g.add("solve_tri with ones on the diagonal", [](Inputs & in) {
        return ggml_solve_tri(in.ctx, triangular(in, { 25, 25, 1, 1 }, 0.3, true), in.random({ 3, 25, 1, 1 }), true, true, false);
    });
    g.add("solve_tri of one row", [](Inputs & in) {
        return ggml_solve_tri(in.ctx, triangular(in, { 1, 1, 3, 1 }, 0.5, false), in.random({ 5, 1, 3, 1 }), true, true, false);
    });

    g.add("ssm_conv", [](Inputs & in) { return ggml_ssm_conv(in.ctx, in.random({ 6, 11, 2, 1 }), in.random({ 4, 11, 1, 1 })); });
    g.add("ssm_scan, a decay for each element of a state", [](Inputs & in) {
        return ggml_ssm_scan(in.ctx, in.random({ 5, 2, 6, 3 }), in.random({ 2, 6, 4, 2 }), in.between({ 6, 4, 2, 1 }, -3, 3),
                             in.between({ 5, 6, 1, 1 }, -2, 0), in.random({ 5, 2, 4, 2 }), in.random({ 5, 2, 4, 2 }),
                             in.ints({ 2, 1, 1, 1 }, { 2, 0 }), 1);
    });
    g.add("ssm_scan, a decay for each head", [](Inputs & in) {
        return ggml_ssm_scan(in.ctx, in.random({ 37, 2, 4, 3 }), in.random({ 2, 4, 3, 2 }), in.between({ 4, 3, 2, 1 }, -30, 30),
                             in.between({ 1, 4, 1, 1 }, -2, 0), in.random({ 37, 2, 3, 2 }), in.random({ 37, 2, 3, 2 }),
                             in.ints({ 2, 1, 1, 1 }, { 1, 1 }), 1);
    });
    g.add("ssm_scan with three snapshots", [](Inputs & in) {
        return ggml_ssm_scan(in.ctx, in.random({ 7, 3, 2, 2 }), in.random({ 3, 2, 5, 2 }), in.between({ 2, 5, 2, 1 }, -3, 3),
                             in.between({ 1, 2, 1, 1 }, -2, 0), in.random({ 7, 1, 5, 2 }), in.random({ 7, 1, 5, 2 }),
                             in.ints({ 2, 1, 1, 1 }, { 1, 0 }), 3);
    });
    g.add("gated_delta_net", [](Inputs & in) {
        return ggml_gated_delta_net(in.ctx, unit(in, { 7, 2, 3, 2 }), unit(in, { 7, 2, 3, 2 }), in.random({ 7, 4, 3, 2 }),
                                    in.between({ 1, 4, 3, 2 }, -2, 0), in.between({ 1, 4, 3, 2 }, 0, 1), in.random({ 7, 7, 4, 2 }), 1);
    });
    g.add("gated_delta_net with a vector of decays and three snapshots", [](Inputs & in) {
        return ggml_gated_delta_net(in.ctx, unit(in, { 5, 1, 4, 2 }), unit(in, { 5, 1, 4, 2 }), in.random({ 5, 2, 4, 2 }),
                                    in.between({ 5, 2, 4, 2 }, -2, 0), in.between({ 1, 2, 4, 2 }, 0, 1), in.random({ 5, 5, 2, 2 }), 3);
    });
}
