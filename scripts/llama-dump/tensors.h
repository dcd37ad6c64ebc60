// Reading a tensor: its values, and what the graph says of it.

#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

std::vector<int64_t> trimmed_ne(const ggml_tensor * t);

/// How numpy calls the type; types it does not have are raw bytes.
std::string npy_descr(ggml_type type);
std::vector<int64_t> npy_shape(const ggml_tensor * t);

/// Blocks of a quantised row cannot be told apart by strides of elements, so such a tensor is stored only when contiguous.
bool can_gather(const ggml_tensor * t);

/// The logical values, dimension 0 fastest, whatever the strides; read through the backend, so device memory works too.
void gather(const ggml_tensor * t, std::vector<uint8_t> & out);

/// Whether a floating-point payload holds a NaN or an infinity: all exponent bits set.
bool has_non_finite(ggml_type type, const std::vector<uint8_t> & payload);

/// Operators that move no data: their result is the root's memory seen through other extents and strides.
bool is_pure_view(const ggml_tensor * t);

/// Whether llama.cpp chose the name. ggml numbers tensors that nobody named, and derives names such as "x (view)".
bool is_given_name(const std::string & name);

/// Which unary or gated operator; empty for others.
std::string variant_of(const ggml_tensor * t);
std::vector<int32_t> params_of(const ggml_tensor * t);

/// The sources without trailing nulls. A cast names itself as the second one, which says nothing.
std::vector<const ggml_tensor *> sources_of(const ggml_tensor * t);

/// The extents, strides and type that leaves and nodes have in common.
std::string layout_json(const ggml_tensor * t);
std::string entry_json(const std::string & entry);

}  // namespace lockstep
