// What a case is made of: seeded inputs, one node, and the record of both.

#pragma once

#include "ggml.h"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

using Extents = std::array<int64_t, 4>; // dimension 0 first

// Makes the inputs of one case. The numbers depend on its seed only.
class Inputs {
  public:
    Inputs(ggml_context * ctx, uint64_t seed) : ctx(ctx), state(seed) {}

    ggml_context * const ctx;

    // Uniform in [-1, 1), a multiple of 2^-23.
    double uniform();
    // Values in [-scale, scale), rounded to the type; a quantised type holds what its quantiser makes of them.
    ggml_tensor * random(Extents ne, double scale = 1, ggml_type type = GGML_TYPE_F32);
    // Values in [low, high).
    ggml_tensor * between(Extents ne, double low, double high);
    // The given values.
    ggml_tensor * floats(Extents ne, const std::vector<float> & values);
    ggml_tensor * ints(Extents ne, const std::vector<int32_t> & values);
    ggml_tensor * longs(Extents ne, const std::vector<int64_t> & values);
    // As `random`, but the rows lie apart and the first element is not the first of the buffer.
    ggml_tensor * padded(Extents ne, double scale = 1);

  private:
    uint64_t state;
};

// Collects cases, by operator.
class Goldens {
  public:
    // Makes the node, computes it and records it.
    void add(const std::string & name, const std::function<ggml_tensor *(Inputs &)> & build, int threads = 1);
    // One line per case, grouped by file name.
    std::map<std::string, std::vector<std::string>> files;
};

// The cases, by what their operators do. Sizes are small and odd, so that vectorised loops have a remainder.
void add_attention(Goldens & goldens);
void add_elementwise(Goldens & goldens);
void add_hyper_connections(Goldens & goldens);
void add_matrices(Goldens & goldens);
void add_moves(Goldens & goldens);
void add_rope(Goldens & goldens);
void add_routing(Goldens & goldens);
void add_rows(Goldens & goldens);
