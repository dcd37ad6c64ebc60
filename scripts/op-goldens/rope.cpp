// ROPE, ROPE_BACK.

#include "goldens.h"

#include <algorithm>

namespace {

struct Options {
    Extents          ne         = { 16, 1, 3, 1 };
    int              n_dims     = 16;
    std::vector<int> sections   = { 0, 0, 0, 0 };
    int              n_ctx_orig = 0;
    float            freq_base  = 10000;
    float            freq_scale = 1;
    float            ext_factor = 0;
    float            attn_factor = 1;
    float            beta_fast = 32;
    float            beta_slow = 1;
    bool             factors  = false;
    bool             strided  = false;
    bool             back     = false;
    int              offset   = 0;
};

void rope(Goldens & g, const std::string & name, int mode, const Options & o) {
    g.add(name, [=](Inputs & in) {
        const bool           multi = mode & GGML_ROPE_TYPE_MROPE;
        std::vector<int32_t> positions; // four channels for MROPE
        for (int64_t i = 0; i < o.ne[2] * (multi ? 4 : 1); i++) {
            positions.push_back(static_cast<int32_t>(40 * (1 + in.uniform())));
        }
        ggml_tensor * x       = o.strided ? in.padded(o.ne) : in.random(o.ne);
        ggml_tensor * p       = in.ints({ static_cast<int64_t>(positions.size()), 1, 1, 1 }, positions);
        ggml_tensor * factors = o.factors ? in.between({ o.n_dims / 2, 1, 1, 1 }, 1, 8) : nullptr;
        int           sections[4];
        std::copy(o.sections.begin(), o.sections.end(), sections);
        const auto    build = o.back ? ggml_rope_multi_back : ggml_rope_multi;
        ggml_tensor * node  = build(in.ctx, x, p, factors, o.n_dims, sections, mode, o.n_ctx_orig, o.freq_base, o.freq_scale,
                                    o.ext_factor, o.attn_factor, o.beta_fast, o.beta_slow);
        return o.offset ? ggml_rope_set_offset(node, o.offset) : node;
    });
}

} // namespace

void add_rope(Goldens & g) {
    const int normal = GGML_ROPE_TYPE_NORMAL, neox = GGML_ROPE_TYPE_NEOX, mrope = GGML_ROPE_TYPE_MROPE;
    const int imrope = GGML_ROPE_TYPE_IMROPE, vision = GGML_ROPE_TYPE_VISION;

    Options plain;
    rope(g, "rope normal", normal, plain);
    rope(g, "rope neox", neox, plain);
    Options partial = plain;
    partial.n_dims  = 10;
    partial.strided = true;
    partial.ne      = { 16, 2, 2, 2 };
    rope(g, "rope normal of a part, two sequences", normal, partial);
    rope(g, "rope neox of a part, two sequences", neox, partial);
    partial.offset = 4;
    rope(g, "rope normal of a part in the middle", normal, partial);
    rope(g, "rope neox of a part in the middle", neox, partial);

    Options sections  = plain;
    sections.sections = { 3, 2, 2, 1 };
    rope(g, "rope mrope", mrope, sections);
    rope(g, "rope imrope", imrope, sections);
    sections.sections = { 2, 1, 0, 1 }; // fewer than pairs: they start again
    rope(g, "rope mrope with few sections", mrope, sections);
    rope(g, "rope imrope with few sections", imrope, sections);
    sections.n_dims   = 8;
    sections.sections = { 4, 4, 4, 4 };
    rope(g, "rope vision", vision, sections);
    sections.sections = { 2, 3, 1, 1 };
    rope(g, "rope vision with few sections", vision, sections);
    sections.sections = { 0, 3, 2, 0 };
    rope(g, "rope vision with empty sections", vision, sections);

    Options scaled    = plain;
    scaled.freq_scale = 0.25f;
    rope(g, "rope with a frequency scale", neox, scaled);
    Options factors = plain;
    factors.factors = true;
    rope(g, "rope with frequency factors", neox, factors);
    Options magnitude     = plain;
    magnitude.attn_factor = 1.19f;
    rope(g, "rope with an attention factor", normal, magnitude);

    Options yarn    = plain;
    yarn.ne         = { 32, 1, 3, 1 };
    yarn.n_dims     = 32;
    yarn.n_ctx_orig = 4096;
    yarn.freq_scale = 0.25f;
    yarn.ext_factor = 1;
    rope(g, "rope with yarn", neox, yarn);
    yarn.attn_factor = 0.8f;
    yarn.ext_factor  = 0.7f;
    yarn.freq_base   = 5e5f;
    yarn.n_ctx_orig  = 100;
    rope(g, "rope with part of yarn, normal", normal, yarn);
    yarn.factors  = true;
    yarn.sections = { 5, 5, 4, 2 };
    rope(g, "rope with yarn, factors and sections", imrope, yarn);
    yarn.beta_fast = 1; // the ramp is a step
    rope(g, "rope with yarn, a ramp of no width", neox, yarn);

    Options back = plain;
    back.back    = true;
    rope(g, "rope back", neox, back);
    yarn.back = true;
    rope(g, "rope back with yarn", normal, yarn);
}
