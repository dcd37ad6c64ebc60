// FLASH_ATTN_EXT, LIGHTNING_INDEXER.

#include "goldens.h"

#include <cmath>

namespace {

struct Shape {
    int64_t dk = 36, dv = 36, n_kv = 12, tokens = 2, heads = 4, kv_heads = 2;
    int threads = 1;
    ggml_type k = GGML_TYPE_F16, v = GGML_TYPE_F16;
    bool mask = true, sinks = false;
    float max_bias = 0, softcap = 0;
};

// The last token sees all keys, one before it one less; with ALiBi a key's number is how long ago it was.
ggml_tensor * causal(Inputs & in, const Shape & s) {
    ggml_tensor * t    = ggml_new_tensor_4d(in.ctx, GGML_TYPE_F16, s.n_kv, s.tokens, 1, 1);
    ggml_fp16_t * data = static_cast<ggml_fp16_t *>(t->data);
    for (int64_t token = 0; token < s.tokens; token++) {
        for (int64_t key = 0; key < s.n_kv; key++) {
            const int64_t ago = s.n_kv - s.tokens + token - key;
            const float   m   = ago < 0 ? -INFINITY : s.max_bias > 0 ? static_cast<float>(-ago) : 0;
            *data++           = ggml_fp32_to_fp16(m);
        }
    }
    return t;
}

ggml_tensor * attention(Inputs & in, const Shape & s) {
    // as the graphs of llama.cpp have them: the heads of a token lie next to each other (blocks are recorded as they lie)
    auto heads = [&](int64_t d, int64_t n, int64_t count, double scale, ggml_type type) {
        return ggml_is_quantized(type) ? in.random({ d, n, count, 1 }, scale, type) :
                                         ggml_permute(in.ctx, in.random({ d, count, n, 1 }, scale, type), 0, 2, 1, 3);
    };
    ggml_tensor * q = heads(s.dk, s.tokens, s.heads, 4, GGML_TYPE_F32);
    ggml_tensor * k = heads(s.dk, s.n_kv, s.kv_heads, 2, s.k);
    ggml_tensor * v = heads(s.dv, s.n_kv, s.kv_heads, 1, s.v);
    const float scale = 1 / std::sqrt(static_cast<float>(s.dk));
    ggml_tensor * node = ggml_flash_attn_ext(in.ctx, q, k, v, s.mask ? causal(in, s) : nullptr, scale, s.max_bias, s.softcap);
    if (s.sinks) {
        ggml_flash_attn_ext_add_sinks(node, in.random({ s.heads, 1, 1, 1 }, 3));
    }
    return node;
}

struct Index {
    int64_t   d = 20, n_kv = 9, tokens = 3, heads = 5, sequences = 1, masks = 1;
    ggml_type k = GGML_TYPE_F32;
    bool      strided = false;
};

ggml_tensor * indexer(Inputs & in, const Index & s) {
    auto floats = [&](Extents ne) { return s.strided ? in.padded(ne) : in.random(ne); };
    ggml_tensor * mask = ggml_new_tensor_4d(in.ctx, GGML_TYPE_F16, s.n_kv, s.tokens, 1, s.masks);
    for (int64_t i = 0; i < ggml_nelements(mask); i++) {
        const bool finite = in.uniform() < 0.5;
        static_cast<ggml_fp16_t *>(mask->data)[i] = ggml_fp32_to_fp16(finite ? static_cast<float>(in.uniform()) : 0);
    }
    // one key in front of each token is masked
    for (int64_t row = 0; row < ggml_nrows(mask); row++) {
        static_cast<ggml_fp16_t *>(mask->data)[row * s.n_kv + row % s.n_kv] = ggml_fp32_to_fp16(-INFINITY);
    }
    ggml_tensor * w = floats({ s.heads, s.tokens, 1, s.sequences });
    return ggml_lightning_indexer(in.ctx, floats({ s.d, s.heads, s.tokens, s.sequences }),
                                  in.random({ s.d, 1, s.n_kv, s.sequences }, 1, s.k), w, mask);
}

} // namespace

void add_attention(Goldens & g) {
    auto add = [&](const std::string & name, const std::function<void(Shape &)> & change) {
        Shape shape;
        change(shape);
        g.add("flash_attn_ext" + name, [=](Inputs & in) { return attention(in, shape); }, shape.threads);
    };
    add("", [](Shape &) {});
    add(" without a mask", [](Shape & s) { s.mask = false; });
    add(" with a softcap", [](Shape & s) { s.softcap = 1.5f; });
    add(" with slopes", [](Shape & s) { s.max_bias = 8, s.heads = 6; });
    add(" with slopes and a softcap", [](Shape & s) { s.max_bias = 8, s.softcap = 3; });
    add(" with sinks", [](Shape & s) { s.sinks = true; });
    add(" of values of another size", [](Shape & s) { s.dk = 40, s.dv = 33; });
    add(" of f32", [](Shape & s) { s.k = s.v = GGML_TYPE_F32, s.dk = s.dv = 20; });
    add(" of bf16", [](Shape & s) { s.k = s.v = GGML_TYPE_BF16, s.dk = s.dv = 20; });
    add(" of keys of f32", [](Shape & s) { s.k = GGML_TYPE_F32, s.dk = s.dv = 20; });
    add(" of values of f32", [](Shape & s) { s.v = GGML_TYPE_F32, s.dk = s.dv = 20; });
    add(" of q8_0", [](Shape & s) { s.k = s.v = GGML_TYPE_Q8_0, s.dk = s.dv = 32; });
    add(" of keys of q4_0", [](Shape & s) { s.k = GGML_TYPE_Q4_0, s.dk = 32; });
    add(" in parts", [](Shape & s) { s.n_kv = 514, s.tokens = 1, s.dk = s.dv = 6, s.kv_heads = 1, s.sinks = true, s.threads = 3; });
    auto tiled = [](Shape & s) { s.tokens = 65, s.n_kv = 70, s.dk = s.dv = 9, s.heads = 1, s.kv_heads = 1; };
    add(" in tiles", tiled);
    add(" in tiles with slopes, sinks and a softcap", [=](Shape & s) {
        tiled(s);
        s.max_bias = 8, s.sinks = true, s.softcap = 2;
    });

    auto add_index = [&](const std::string & name, const std::function<void(Index &)> & change) {
        Index shape;
        change(shape);
        g.add("lightning_indexer" + name, [=](Inputs & in) { return indexer(in, shape); });
    };
    add_index("", [](Index &) {});
    add_index(" of rows with registers and a rest", [](Index & s) { s.d = 77; });
    add_index(" of f16", [](Index & s) { s.k = GGML_TYPE_F16; });
    add_index(" of q8_0", [](Index & s) { s.k = GGML_TYPE_Q8_0, s.d = 32; });
    add_index(" of sequences with one mask", [](Index & s) { s.sequences = 2; });
    add_index(" of sequences with masks, strided", [](Index & s) { s.sequences = 4, s.masks = 2, s.strided = true, s.tokens = 2; });
}
