// Reading a tensor: its values, and what the graph says of it.

#include "tensors.h"

#include "compat.h"
#include "text.h"

#include <algorithm>
#include <cstring>

namespace lockstep {

std::vector<int64_t> trimmed_ne(const ggml_tensor * t) {
    int n = GGML_MAX_DIMS;
    while (n > 1 && t->ne[n - 1] == 1) {
        n--;
    }
    return { t->ne, t->ne + n };
}

std::string npy_descr(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F32: return "<f4";
        case GGML_TYPE_F16: return "<f2";
        case GGML_TYPE_F64: return "<f8";
        case GGML_TYPE_I8: return "|i1";
        case GGML_TYPE_I16: return "<i2";
        case GGML_TYPE_I32: return "<i4";
        case GGML_TYPE_I64: return "<i8";
        default: return "|u1";
    }
}

std::vector<int64_t> npy_shape(const ggml_tensor * t) {
    std::vector<int64_t> shape = trimmed_ne(t);
    if (npy_descr(t->type) == "|u1") {
        shape[0] = static_cast<int64_t>(ggml_row_size(t->type, t->ne[0]));
    }
    std::reverse(shape.begin(), shape.end());
    return shape;
}

namespace {

bool has_memory(const ggml_tensor * t) {
    const ggml_tensor * root = t->view_src ? t->view_src : t;
    return t->data != nullptr && root->buffer != nullptr;
}

}  // namespace

bool can_gather(const ggml_tensor * t) {
    return has_memory(t) && (ggml_blck_size(t->type) == 1 || ggml_is_contiguous(t));
}

void gather(const ggml_tensor * t, std::vector<uint8_t> & out) {
    const size_t row_bytes = ggml_row_size(t->type, t->ne[0]);
    out.resize(row_bytes * static_cast<size_t>(ggml_nrows(t)));
    if (ggml_is_contiguous(t)) {
        ggml_backend_tensor_get(t, out.data(), 0, out.size());
        return;
    }
    std::vector<uint8_t> span(ggml_nbytes(t));
    ggml_backend_tensor_get(t, span.data(), 0, span.size());
    const size_t element = ggml_type_size(t->type);
    uint8_t * to = out.data();
    for (int64_t i3 = 0; i3 < t->ne[3]; i3++) {
        for (int64_t i2 = 0; i2 < t->ne[2]; i2++) {
            for (int64_t i1 = 0; i1 < t->ne[1]; i1++) {
                const uint8_t * from = span.data() + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3];
                for (int64_t i0 = 0; i0 < t->ne[0]; i0++, to += element) {
                    std::memcpy(to, from + i0 * t->nb[0], element);
                }
            }
        }
    }
}

bool has_non_finite(ggml_type type, const std::vector<uint8_t> & payload) {
    const auto any = [&](auto exponent) {
        decltype(exponent) bits;
        for (size_t at = 0; at + sizeof bits <= payload.size(); at += sizeof bits) {
            std::memcpy(&bits, payload.data() + at, sizeof bits);
            if ((bits & exponent) == exponent) {
                return true;
            }
        }
        return false;
    };
    switch (type) {
        case GGML_TYPE_F32: return any(uint32_t(0x7F800000));
        case GGML_TYPE_F16: return any(uint16_t(0x7C00));
        case GGML_TYPE_BF16: return any(uint16_t(0x7F80));
        case GGML_TYPE_F64: return any(uint64_t(0x7FF0000000000000));
        default: return false;
    }
}

bool is_pure_view(const ggml_tensor * t) {
    return t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE || t->op == GGML_OP_PERMUTE || t->op == GGML_OP_TRANSPOSE;
}

bool is_given_name(const std::string & name) {
    for (const char * prefix : { "node_", "leaf_" }) {
        if (starts_with(name, prefix) && all_digits(name.substr(std::strlen(prefix)))) {
            return false;
        }
    }
    return !name.empty() && name.find(" (") == std::string::npos;
}

std::string variant_of(const ggml_tensor * t) {
    const std::string op = ggml_op_name(t->op);
    const char * name = op == "UNARY" ? ggml_unary_op_name(ggml_get_unary_op(t)) : op == "GLU" ? compat::glu_name(t, 0) : nullptr;
    return name ? name : "";
}

std::vector<int32_t> params_of(const ggml_tensor * t) {
    constexpr size_t count = sizeof t->op_params / sizeof(int32_t);
    const auto * words = reinterpret_cast<const int32_t *>(t->op_params);
    size_t n = count;
    while (n > 0 && words[n - 1] == 0) {
        n--;
    }
    return { words, words + n };
}

std::vector<const ggml_tensor *> sources_of(const ggml_tensor * t) {
    std::vector<const ggml_tensor *> sources(t->src, t->src + GGML_MAX_SRC);
    std::replace(sources.begin(), sources.end(), t, static_cast<const ggml_tensor *>(nullptr));
    while (!sources.empty() && !sources.back()) {
        sources.pop_back();
    }
    return sources;
}

std::string layout_json(const ggml_tensor * t) {
    return "\"type\":" + quote(ggml_type_name(t->type)) + ",\"ne\":" + json_numbers(std::vector<int64_t>(t->ne, t->ne + GGML_MAX_DIMS)) +
           ",\"nb\":" + json_numbers(std::vector<size_t>(t->nb, t->nb + GGML_MAX_DIMS));
}

std::string entry_json(const std::string & entry) {
    return ",\"entry\":" + (entry.empty() ? std::string("null") : quote(entry)) + "}";
}

}  // namespace lockstep
