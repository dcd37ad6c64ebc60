// ADD, SUB, MUL, DIV, ADD_ID, ARANGE, SCALE, SQR, SQRT, LOG, SIN, COS, CLAMP, UNARY, GLU.

#include "goldens.h"

#include <utility>

namespace {

// Where a function changes its form, where a table ends, ties, and values that underflow.
const std::vector<float> SPECIAL = { 0,    -0.0f, 1e-30f, -1e-30f, 0.5f, -0.5f, 1.5f,   2.5f,   -2.5f, 3,   -3,  -3.0000002f, 10,
                                     -10,  9.999f, -9.999f, 20,    20.5f, -20.5f, 80,    -60,    -80,   -87, -88, -88.5f,      -89,
                                     -91,  -100,  -104,   0.9999f, 5e-8f, -5e-8f, 0.1f,  -0.01f };

ggml_tensor * arguments(Inputs & in) {
    std::vector<float> values = SPECIAL;
    while (values.size() < 50) {
        values.push_back(static_cast<float>(12 * in.uniform()));
    }
    return in.floats({ 25, 2, 1, 1 }, values);
}

void binaries(Goldens & g) {
    using Binary = ggml_tensor * (*) (ggml_context *, ggml_tensor *, ggml_tensor *);
    const std::pair<std::string, Binary> operators[] = {
        { "add", ggml_add }, { "sub", ggml_sub }, { "mul", ggml_mul }, { "div", ggml_div }
    };
    for (const auto & [name, op] : operators) {
        const Binary apply = op;
        g.add(name + " of one shape", [=](Inputs & in) {
            return apply(in.ctx, in.random({ 11, 2, 1, 2 }), in.between({ 11, 2, 1, 2 }, 0.25, 2));
        });
        g.add(name + ", strided, the second source repeated over dimensions 1 and 3", [=](Inputs & in) {
            return apply(in.ctx, in.padded({ 9, 2, 3, 2 }), in.between({ 9, 1, 3, 1 }, 0.25, 2));
        });
        g.add(name + ", a column repeated over the row", [=](Inputs & in) {
            return apply(in.ctx, in.random({ 9, 3, 2, 1 }), in.between({ 1, 3, 1, 1 }, 0.25, 2));
        });
    }
}

void unaries(Goldens & g) {
    for (int i = 0; i < GGML_UNARY_OP_COUNT; i++) {
        const ggml_unary_op op = static_cast<ggml_unary_op>(i);
        if (op == GGML_UNARY_OP_XIELU) {
            continue; // has parameters
        }
        g.add(std::string("unary ") + ggml_unary_op_name(op), [=](Inputs & in) { return ggml_unary(in.ctx, arguments(in), op); });
    }
    g.add("unary SILU, strided", [](Inputs & in) { return ggml_silu(in.ctx, in.padded({ 13, 2, 2, 1 }, 4)); });
    for (float eps : { -1e-6f, -0.5f }) {
        g.add("unary XIELU with epsilon " + std::to_string(eps), [=](Inputs & in) {
            return ggml_xielu(in.ctx, in.random({ 25, 2, 1, 1 }, 2), 0.8f, 1.1f, 0.5f, eps);
        });
    }
}

void gated(Goldens & g) {
    for (int i = 0; i < GGML_GLU_OP_COUNT; i++) {
        const ggml_glu_op op   = static_cast<ggml_glu_op>(i);
        const std::string name = std::string("gated ") + ggml_glu_op_name(op);
        if (op == GGML_GLU_OP_SWIGLU_OAI) {
            g.add(name + " of two", [](Inputs & in) {
                return ggml_swiglu_oai(in.ctx, in.random({ 13, 2, 1, 1 }, 9), in.random({ 13, 2, 1, 1 }, 9), 1.702f, 7);
            });
            g.add(name + " of one", [](Inputs & in) { return ggml_swiglu_oai(in.ctx, in.random({ 26, 2, 1, 1 }, 9), nullptr, 1.702f, 7); });
        } else if (op == GGML_GLU_OP_SWIGLU_CLAMP) {
            g.add(name + " of two", [](Inputs & in) {
                return ggml_swiglu_clamp(in.ctx, in.random({ 13, 2, 1, 1 }, 9), in.random({ 13, 2, 1, 1 }, 9), 5);
            });
            g.add(name + " of one", [](Inputs & in) { return ggml_swiglu_clamp(in.ctx, in.random({ 26, 2, 1, 1 }, 9), nullptr, 5); });
        } else {
            g.add(name + " of two", [=](Inputs & in) {
                ggml_tensor * gate = arguments(in);
                return ggml_glu_split(in.ctx, gate, in.random({ 25, 2, 1, 1 }), op);
            });
            g.add(name + " of one", [=](Inputs & in) { return ggml_glu(in.ctx, in.random({ 26, 2, 1, 1 }, 6), op, false); });
            g.add(name + " of one, swapped", [=](Inputs & in) { return ggml_glu(in.ctx, in.random({ 26, 2, 1, 1 }, 6), op, true); });
        }
    }
}

} // namespace

void add_elementwise(Goldens & g) {
    g.add("add_id", [](Inputs & in) {
        return ggml_add_id(in.ctx, in.random({ 11, 2, 3, 1 }), in.random({ 11, 4, 1, 1 }), in.ints({ 2, 3, 1, 1 }, { 2, 0, 3, 2, 1, 3 }));
    });
    g.add("add_id, strided", [](Inputs & in) {
        return ggml_add_id(in.ctx, in.padded({ 5, 2, 2, 1 }), in.padded({ 5, 3, 1, 1 }), in.ints({ 2, 2, 1, 1 }, { 2, 0, 0, 1 }));
    });
    g.add("arange", [](Inputs & in) { return ggml_arange(in.ctx, 0, 19, 1); });
    g.add("arange from below zero by parts", [](Inputs & in) { return ggml_arange(in.ctx, -1.7f, 4, 0.3f); });
    binaries(g);
    g.add("scale", [](Inputs & in) { return ggml_scale(in.ctx, in.random({ 19, 2, 1, 1 }), 0.3f); });
    g.add("scale with a bias", [](Inputs & in) { return ggml_scale_bias(in.ctx, in.random({ 19, 2, 1, 1 }), -1.7f, 0.9f); });
    g.add("sqr", [](Inputs & in) { return ggml_sqr(in.ctx, in.padded({ 19, 2, 1, 1 }, 5)); });
    g.add("sqrt", [](Inputs & in) { return ggml_sqrt(in.ctx, in.between({ 19, 2, 1, 1 }, 0, 5)); });
    g.add("log", [](Inputs & in) { return ggml_log(in.ctx, in.between({ 19, 2, 1, 1 }, 1e-4, 2)); });
    g.add("sin", [](Inputs & in) { return ggml_sin(in.ctx, in.random({ 19, 2, 1, 1 }, 30)); });
    g.add("cos", [](Inputs & in) { return ggml_cos(in.ctx, in.random({ 19, 2, 1, 1 }, 30)); });
    g.add("clamp", [](Inputs & in) { return ggml_clamp(in.ctx, in.random({ 19, 2, 1, 1 }, 3), -0.7f, 1.3f); });
    unaries(g);
    gated(g);
}
