// The model and its contexts.

#pragma once

#include "observer.h"
#include "options.h"
#include "script.h"

#include "llama.h"

#include <memory>
#include <string>
#include <vector>

namespace lockstep {

using ModelPtr = std::unique_ptr<llama_model, decltype(&llama_model_free)>;
using ContextPtr = std::unique_ptr<llama_context, decltype(&llama_free)>;

struct TreeAbilities {
    bool knows_repack = false;
};

/// llama.cpp's warnings and errors only; what it says line by line while loading is not ours to repeat.
void log_callback(ggml_log_level level, const char * text, void *);

ModelPtr load_model(const Options & o, TreeAbilities & tree);
ContextPtr make_context(llama_model * model, const Options & o, const Plan & plan, Observer & observer);

/// Turns texts into tokens, and checks the tokens that were given.
void settle_tokens(Options & o, const llama_model * model);

}  // namespace lockstep
