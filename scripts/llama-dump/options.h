// The command line.

#pragma once

#include "script.h"

#include "ggml.h"
#include "llama.h"

#include <cstdint>
#include <regex>
#include <string>
#include <vector>

namespace lockstep {

struct Filter {
    std::string text;  // as given
    int64_t first_step = 0, last_step = INT64_MAX;
    std::regex pattern;

    bool matches(int64_t step, const std::string & name) const {
        return step >= first_step && step <= last_step && std::regex_search(name, pattern);
    }
};

/// The tokens of a sequence, in the order in which they are evaluated.
struct TokenList {
    std::vector<llama_token> tokens;
    std::string prompt;  // the text that they come from
    bool has_prompt = false;
};

struct Options {
    std::string model, out;
    std::vector<TokenList> sequences;
    std::string schedule;  // as given; empty: not given
    std::vector<Action> actions;
    int32_t generate = 0;
    std::vector<Filter> filters;
    std::string until;
    std::regex until_pattern;
    bool named = false, views = false, all_logits = false;
    int32_t threads = 1;
    uint32_t n_ctx = 0, n_ubatch = 0, rollback = 0;
    ggml_type type_k = GGML_TYPE_F32, type_v = GGML_TYPE_F32;
    bool flash_attn = false, repack = false, reference_kernels = false, kv_unified = false;
};

Options parse_options(int argc, char ** argv);

}  // namespace lockstep
