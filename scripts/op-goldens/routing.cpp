// ARGSORT, TOP_K, POOL_2D: what is chosen, and by which scores.

#include "goldens.h"

#include <cmath>

namespace {

// Rows of which many elements are equal: multiples of 1/8, and a few that are masked.
ggml_tensor * scores(Inputs & in, Extents ne) {
    std::vector<float> values;
    for (int64_t i = 0; i < ne[0] * ne[1] * ne[2] * ne[3]; i++) {
        const double score = in.uniform();
        values.push_back(score > 0.8 ? -INFINITY : static_cast<float>(std::floor(8 * score) / 8));
    }
    return in.floats(ne, values);
}

} // namespace

void add_routing(Goldens & g) {
    for (ggml_sort_order order : { GGML_SORT_ORDER_ASC, GGML_SORT_ORDER_DESC }) {
        const std::string name = order == GGML_SORT_ORDER_ASC ? "argsort, ascending" : "argsort, descending";
        g.add(name, [=](Inputs & in) { return ggml_argsort(in.ctx, in.padded({ 19, 3, 1, 1 }), order); });
        // std::sort inserts up to 16 elements one by one and parts more; equal ones show which.
        for (int64_t n : { 7, 16, 17, 40, 150 }) {
            g.add(name + ", with ties among " + std::to_string(n), [=](Inputs & in) { return ggml_argsort(in.ctx, scores(in, { n, 3, 1, 1 }), order); });
        }
    }
    for (int k : { 1, 2, 7, 19 }) {
        g.add("top " + std::to_string(k) + " of 19", [=](Inputs & in) { return ggml_top_k(in.ctx, in.random({ 19, 3, 2, 1 }), k); });
    }
    for (int k : { 3, 20, 60 }) {
        g.add("top " + std::to_string(k) + " of 60, with ties", [=](Inputs & in) { return ggml_top_k(in.ctx, scores(in, { 60, 3, 1, 1 }), k); });
    }

    // b11434 takes row i at i * nb1, whatever lies between two matrices: tests/op_goldens.rs wants these to be wrong.
    g.add("argsort of matrices that lie apart", [](Inputs & in) { return ggml_argsort(in.ctx, in.padded({ 19, 3, 2, 1 }), GGML_SORT_ORDER_DESC); });
    g.add("top 3 of matrices that lie apart", [](Inputs & in) { return ggml_top_k(in.ctx, in.padded({ 19, 3, 2, 1 }), 3); });

    for (ggml_op_pool pool : { GGML_OP_POOL_MAX, GGML_OP_POOL_AVG }) {
        const std::string name = pool == GGML_OP_POOL_MAX ? "pool_2d, greatest" : "pool_2d, mean";
        g.add(name + " of rows", [=](Inputs & in) { return ggml_pool_2d(in.ctx, in.random({ 12, 3, 2, 1 }), pool, 4, 1, 4, 1, 0, 0); });
        g.add(name + " of overlapping windows beyond the edge", [=](Inputs & in) {
            return ggml_pool_2d(in.ctx, in.padded({ 9, 7, 2, 2 }), pool, 3, 2, 2, 1, 1, 1);
        });
    }
}
