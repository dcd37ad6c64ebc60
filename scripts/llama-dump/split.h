// How llama.cpp splits a batch into ubatches, one graph each (llama-batch.cpp).

#pragma once

#include "script.h"

#include <cstdint>
#include <vector>

namespace lockstep {

/// The tokens of a ubatch in its order, as indices into the batch.
using Indices = std::vector<size_t>;

/// As `llama_batch_allocr::split_simple`: in the order of the batch.
std::vector<Indices> split_simple(const Batch & batch, size_t n_ubatch);

/// As `llama_batch_allocr::split_equal`: as many tokens of each sequence, one sequence after the other. `sequential` lets only
/// sequences with consecutive ids together; of each sequence the last `n_keep_tail` tokens stay in one ubatch.
std::vector<Indices> split_equal(const Batch & batch, size_t n_ubatch, bool sequential, size_t n_keep_tail);

}  // namespace lockstep
