// What differs between llama.cpp trees. Each setter returns false where the tree has no such field, so that the caller can
// tell "set" from "this tree does not know it".

#pragma once

#include "ggml.h"
#include "llama.h"

#include <cstdint>
#include <type_traits>

namespace lockstep {

namespace compat {

#define LOCKSTEP_OPTIONAL_FIELD(field)                                                     \
    template <class Params>                                                                \
    auto set_##field(Params & params, long value, int)->decltype((void) params.field, true) { \
        params.field = static_cast<std::remove_reference_t<decltype(params.field)>>(value); \
        return true;                                                                       \
    }                                                                                      \
    template <class Params>                                                                \
    bool set_##field(Params &, long, long) {                                               \
        return false;                                                                      \
    }

LOCKSTEP_OPTIONAL_FIELD(flash_attn_type)  // an enum since late 2025: auto -1, off 0, on 1
LOCKSTEP_OPTIONAL_FIELD(flash_attn)       // a bool before that
LOCKSTEP_OPTIONAL_FIELD(use_extra_bufts)  // weight repacking
LOCKSTEP_OPTIONAL_FIELD(load_mtp)
LOCKSTEP_OPTIONAL_FIELD(n_rs_seq)
LOCKSTEP_OPTIONAL_FIELD(kv_unified)
LOCKSTEP_OPTIONAL_FIELD(op_offload)

#undef LOCKSTEP_OPTIONAL_FIELD

/// The kind of a gated linear unit, where the tree has such an operator.
template <class Tensor>
auto glu_name(const Tensor * tensor, int) -> decltype(ggml_glu_op_name(ggml_get_glu_op(tensor))) {
    return ggml_glu_op_name(ggml_get_glu_op(tensor));
}
template <class Tensor>
const char * glu_name(const Tensor *, long) {
    return nullptr;
}

/// Whether llama.cpp evaluates the node. Trees that build alternative branches into one graph flag the nodes of the chosen
/// one; the others keep whatever their memory held before, and are no part of the computation.
template <class Flag = ggml_tensor_flag>
auto is_evaluated(const ggml_tensor * tensor, int) -> decltype((void) Flag::GGML_TENSOR_FLAG_COMPUTE, true) {
    return (tensor->flags & Flag::GGML_TENSOR_FLAG_COMPUTE) != 0;
}
template <class Flag = ggml_tensor_flag>
bool is_evaluated(const ggml_tensor *, long) {
    return true;
}

/// How many recurrent states a context keeps per sequence beside the newest. The architecture may have none.
template <class Context>
auto n_rs_seq(const Context * context, int) -> decltype(static_cast<uint32_t>(llama_n_rs_seq(context))) {
    return llama_n_rs_seq(context);
}
template <class Context>
uint32_t n_rs_seq(const Context *, long) {
    return 0;
}

/// Whether the model has attention and recurrent layers.
template <class Model>
auto is_hybrid(const Model * model, int) -> decltype(llama_model_is_hybrid(model)) {
    return llama_model_is_hybrid(model);
}
template <class Model>
bool is_hybrid(const Model *, long) {
    return false;
}

}  // namespace compat

}  // namespace lockstep
