// The model and its contexts.

#include "model.h"

#include "compat.h"
#include "text.h"

#include <cstdio>

namespace lockstep {

void log_callback(ggml_log_level level, const char * text, void *) {
    static bool passing = false;  // a continuation belongs to the message before it
    if (level != GGML_LOG_LEVEL_CONT) {
        passing = level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR;
    }
    if (passing) {
        std::fputs(text, stderr);
    }
}

ModelPtr load_model(const Options & o, TreeAbilities & tree) {
    static ggml_backend_dev_t no_devices[] = { nullptr };
    llama_model_params params = llama_model_default_params();
    params.devices = no_devices;
    params.n_gpu_layers = 0;
    compat::set_load_mtp(params, false, 0);
    tree.knows_repack = compat::set_use_extra_bufts(params, o.repack, 0);
    if (!tree.knows_repack && o.repack) {
        fail("--repack on: this llama.cpp tree has no switch for it");
    }
    ModelPtr model(llama_model_load_from_file(o.model.c_str(), params), llama_model_free);
    if (!model) {
        fail("llama.cpp could not load " + o.model + " (its messages are above)");
    }
    return model;
}

ContextPtr make_context(llama_model * model, const Options & o, const Plan & plan, Observer & observer) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = plan.n_ctx;
    params.n_batch = plan.n_batch;
    params.n_ubatch = o.n_ubatch != 0 ? o.n_ubatch : plan.n_batch;
    params.n_seq_max = plan.n_seq_max;
    params.n_threads = params.n_threads_batch = o.threads;
    params.type_k = o.type_k;
    params.type_v = o.type_v;
    params.offload_kqv = false;
    params.no_perf = true;
    compat::set_op_offload(params, false, 0);
    compat::set_n_rs_seq(params, o.rollback, 0);
    if (!compat::set_kv_unified(params, o.kv_unified, 0) && plan.n_seq_max > 1) {
        fail("this llama.cpp tree has no kv_unified, so that it is not known how several sequences share the cache");
    }
    const bool flash_known = compat::set_flash_attn_type(params, o.flash_attn, 0) || compat::set_flash_attn(params, o.flash_attn, 0);
    if (!flash_known) {
        fail("this llama.cpp tree sets flash attention in a way that llama-dump does not know");
    }
    if (observer.reference || observer.capture) {
        params.cb_eval = observe_callback;
        params.cb_eval_user_data = &observer;
    }
    ContextPtr context(llama_init_from_model(model, params), llama_free);
    if (!context) {
        fail("llama.cpp could not make a context (its messages are above)");
    }
    if (compat::n_rs_seq(context.get(), 0) != o.rollback) {
        fail("--rollback " + std::to_string(o.rollback) + ": llama.cpp keeps no recurrent states for this model");
    }
    return context;
}

namespace {

std::vector<llama_token> tokenize(const llama_model * model, const std::string & text) {
    const llama_vocab * vocab = llama_model_get_vocab(model);
    if (llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_NONE) {
        fail("-p: the model has no tokenizer; give token ids with -t");
    }
    std::vector<llama_token> tokens(text.size() + 8);
    int32_t n = llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(), static_cast<int32_t>(tokens.size()), true, true);
    if (n < 0) {
        tokens.resize(static_cast<size_t>(-n));
        n = llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(), -n, true, true);
    }
    if (n <= 0) {
        fail("-p: the text gives no token");
    }
    tokens.resize(static_cast<size_t>(n));
    return tokens;
}

}  // namespace

void settle_tokens(Options & o, const llama_model * model) {
    const int32_t n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    for (TokenList & list : o.sequences) {
        if (list.has_prompt) {
            list.tokens = tokenize(model, list.prompt);
        }
        for (const llama_token token : list.tokens) {
            if (token >= n_vocab) {
                fail("token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(n_vocab));
            }
        }
    }
}

}  // namespace lockstep
