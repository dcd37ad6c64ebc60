// DSV4_HC_PRE, DSV4_HC_POST, DSV4_HC_COMB.

#include "goldens.h"

namespace {

// The part of each row of `whole` that begins at `first`, as the weights of the streams are a part of the mixes.
ggml_tensor * columns(Inputs & in, ggml_tensor * whole, int64_t first, int64_t count) {
    return ggml_view_2d(in.ctx, whole, count, whole->ne[1], whole->nb[1], first * whole->nb[0]);
}

void add_pre(Goldens & g) {
    g.add("dsv4_hc_pre", [](Inputs & in) {
        return ggml_dsv4_hc_pre(in.ctx, in.random({ 19, 4, 3, 1 }), in.random({ 4, 3, 1, 1 }));
    });
    g.add("dsv4_hc_pre of seven streams, strided", [](Inputs & in) {
        return ggml_dsv4_hc_pre(in.ctx, in.padded({ 5, 7, 2, 1 }), columns(in, in.random({ 24, 2, 1, 1 }), 3, 7));
    });
    g.add("dsv4_hc_pre, gated", [](Inputs & in) {
        return ggml_dsv4_hc_pre_gated(in.ctx, in.random({ 19, 4, 3, 1 }), in.random({ 19, 4, 3, 1 }, 8), 1);
    });
    g.add("dsv4_hc_pre, gated, scaled and strided", [](Inputs & in) {
        return ggml_dsv4_hc_pre_gated(in.ctx, in.padded({ 9, 5, 2, 1 }), in.padded({ 9, 5, 2, 1 }, 100), 0.37f);
    });
}

void add_post(Goldens & g) {
    g.add("dsv4_hc_post", [](Inputs & in) {
        return ggml_dsv4_hc_post(in.ctx, in.random({ 9, 3, 1, 1 }), in.random({ 9, 4, 3, 1 }), in.random({ 4, 3, 1, 1 }),
                                 in.random({ 4, 4, 3, 1 }));
    });
    g.add("dsv4_hc_post of seven streams, strided", [](Inputs & in) {
        return ggml_dsv4_hc_post(in.ctx, in.padded({ 5, 2, 1, 1 }), in.padded({ 5, 7, 2, 1 }),
                                 columns(in, in.random({ 24, 2, 1, 1 }), 7, 7), in.padded({ 7, 7, 2, 1 }));
    });
    g.add("dsv4_hc_post, each stream keeps its own", [](Inputs & in) {
        return ggml_dsv4_hc_post(in.ctx, in.random({ 9, 3, 1, 1 }), in.random({ 9, 4, 3, 1 }), in.random({ 4, 3, 1, 1 }), nullptr);
    });
}

void add_comb(Goldens & g) {
    struct Case {
        double size, base;
        float  eps;
        int    n_iter;
    };
    for (const Case & c : { Case{ 1, 1, 1e-6f, 20 }, Case{ 1, 1, 1e-6f, 1 }, Case{ 3, 3, 0.05f, 3 }, Case{ 30, 10, 1e-6f, 20 },
                            Case{ 200, 1, 1e-6f, 20 }, Case{ 2, 2, 0, 2 }, Case{ 5, 5, 1e-4f, 300 } }) {
        const std::string name = "dsv4_hc_comb, " + std::to_string(c.n_iter) + " iterations, epsilon " + std::to_string(c.eps) +
                                 ", logits of size " + std::to_string(static_cast<int>(c.size));
        g.add(name, [=](Inputs & in) {
            return ggml_dsv4_hc_comb(in.ctx, in.random({ 24, 3, 1, 1 }, c.size), in.random({ 3, 1, 1, 1 }),
                                     in.random({ 24, 1, 1, 1 }, c.base), c.eps, c.n_iter);
        });
    }
    g.add("dsv4_hc_comb, strided", [](Inputs & in) {
        return ggml_dsv4_hc_comb(in.ctx, in.padded({ 24, 2, 1, 1 }, 4), in.random({ 5, 1, 1, 1 }), in.random({ 24, 1, 1, 1 }), 1e-6f, 5);
    });
}

} // namespace

void add_hyper_connections(Goldens & g) {
    add_pre(g);
    add_post(g);
    add_comb(g);
}
