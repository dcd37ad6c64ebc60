// The manifest.

#include "manifest.h"

#include "compat.h"
#include "text.h"

#if __has_include(<gnu/libc-version.h>)
#include <gnu/libc-version.h>
#endif

#include <functional>
#include <map>

#ifndef LOCKSTEP_LLAMA_BUILD
#define LOCKSTEP_LLAMA_BUILD 0
#endif
#ifndef LOCKSTEP_LLAMA_COMMIT
#define LOCKSTEP_LLAMA_COMMIT "unknown"
#endif
#ifndef LOCKSTEP_LLAMA_CHANGES
#define LOCKSTEP_LLAMA_CHANGES ""
#endif

namespace lockstep {

namespace {

constexpr const char * DUMPER = "llama-dump 1";

std::string compiler() {
#if defined(__clang__)
    return "clang " + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__) + "." + std::to_string(__clang_patchlevel__);
#elif defined(__GNUC__)
    return "gcc " + std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__) + "." + std::to_string(__GNUC_PATCHLEVEL__);
#else
    return "unknown";
#endif
}

std::string libc() {
#if defined(__GLIBC__) && __has_include(<gnu/libc-version.h>)
    return std::string("glibc ") + gnu_get_libc_version();
#else
    return "unknown";
#endif
}

/// One of llama.cpp's functions that fill a buffer and return the length they wanted.
std::string filled(const std::function<int32_t(char *, size_t)> & fill) {
    std::vector<char> buffer(512);
    int32_t n = fill(buffer.data(), buffer.size());
    if (n >= static_cast<int32_t>(buffer.size())) {
        buffer.resize(static_cast<size_t>(n) + 1);
        n = fill(buffer.data(), buffer.size());
    }
    return n < 0 ? "" : std::string(buffer.data(), static_cast<size_t>(n));
}

std::map<std::string, std::string> metadata(const llama_model * model) {
    constexpr size_t LONGEST = 256;  // longer values are templates and the like
    std::map<std::string, std::string> out;
    for (int32_t i = 0; i < llama_model_meta_count(model); i++) {
        const std::string key = filled([&](char * p, size_t n) { return llama_model_meta_key_by_index(model, i, p, n); });
        const std::string value = filled([&](char * p, size_t n) { return llama_model_meta_val_str_by_index(model, i, p, n); });
        if (value.size() <= LONGEST) {
            out[key] = value;
        }
    }
    return out;
}

std::string producer_json() {
    const std::string changes = LOCKSTEP_LLAMA_CHANGES;
    return "{\"name\":\"llama.cpp\",\"build\":" + std::to_string(LOCKSTEP_LLAMA_BUILD) + ",\"commit\":" + quote(LOCKSTEP_LLAMA_COMMIT) +
           ",\"backend\":\"CPU\",\"system_info\":" + quote(llama_print_system_info()) + ",\"compiler\":" + quote(compiler()) +
           ",\"libc\":" + quote(libc()) + ",\"dumper\":" + quote(DUMPER) + (changes.empty() ? "" : ",\"changes\":" + quote(changes)) + "}";
}

std::string model_json(const Options & o, const llama_model * model, const std::string & sha256) {
    const auto values = metadata(model);
    const auto architecture = values.find("general.architecture");
    const size_t slash = o.model.find_last_of('/');
    const std::string file = slash == std::string::npos ? o.model : o.model.substr(slash + 1);
    std::string pairs = json_list(values, [](const auto & pair) { return quote(pair.first) + ":" + quote(pair.second); });
    pairs.front() = '{';
    pairs.back() = '}';
    return "{\"file\":" + quote(file) + ",\"sha256\":" + quote(sha256) +
           ",\"architecture\":" + quote(architecture == values.end() ? "" : architecture->second) + ",\"metadata\":" + pairs + "}";
}

std::string ubatch_json(size_t step, const Ubatch & ubatch) {
    const auto list = [&](auto field) { return json_list(ubatch.tokens, [&](const BatchToken & token) { return std::to_string(field(token)); }); };
    const std::string before = json_list(ubatch.before, [](const std::string & change) { return change; });
    return "{\"step\":" + std::to_string(step) + ",\"tokens\":" + list([](const BatchToken & t) { return t.token; }) +
           ",\"positions\":" + list([](const BatchToken & t) { return t.position; }) +
           ",\"seq_ids\":" + json_list(ubatch.tokens, [](const BatchToken & t) { return "[" + std::to_string(t.seq_id) + "]"; }) +
           ",\"outputs\":" + list([](const BatchToken & t) { return t.output ? 1 : 0; }) +
           (ubatch.before.empty() ? "" : ",\"before\":" + before) + "}";
}

/// The text, where one text is all that was given.
std::string prompt_json(const Options & o) {
    return o.sequences.size() == 1 && o.sequences[0].has_prompt ? quote(o.sequences[0].prompt) : "null";
}

std::string run_json(const Ran & ran) {
    const Options & o = ran.options;
    const CaptureCounts & counts = ran.capture.counts();
    llama_context * context = ran.context;
    size_t step = 0;
    std::string json = "{\"ubatches\":" + json_list(ran.run.ubatches, [&](const Ubatch & u) { return ubatch_json(step++, u); });
    json += ",\"schedule\":" + json_numbers(ran.plan.evaluations);
    json += ran.plan.script.empty() ? "" : ",\"script\":" + quote(ran.plan.script);
    json += ",\"generated\":" + std::to_string(o.generate);
    json += ",\"prompt\":" + prompt_json(o);
    json += ",\"n_ctx\":" + std::to_string(llama_n_ctx(context)) + ",\"n_seq_max\":" + std::to_string(llama_n_seq_max(context));
    json += llama_n_seq_max(context) > 1 ? std::string(",\"kv_unified\":") + boolean(o.kv_unified) : "";
    json += o.rollback > 0 ? ",\"n_rs_seq\":" + std::to_string(o.rollback) : "";
    json += ",\"n_batch\":" + std::to_string(llama_n_batch(context)) + ",\"n_ubatch\":" + std::to_string(llama_n_ubatch(context));
    json += ",\"n_threads\":" + std::to_string(o.threads) + ",\"flash_attn\":" + boolean(o.flash_attn);
    json += ",\"type_k\":" + quote(ggml_type_name(o.type_k)) + ",\"type_v\":" + quote(ggml_type_name(o.type_v));
    json += std::string(",\"repack\":") + (ran.tree.knows_repack ? boolean(o.repack) : "null");
    json += std::string(",\"reference_kernels\":") + boolean(o.reference_kernels);
    json += std::string(",\"fused_gdn\":") + (counts.fused_gdn ? "true" : counts.unfused_gdn ? "false" : "null");
    json += ",\"filters\":" + json_list(o.filters, [](const Filter & filter) { return quote(filter.text); });
    json += o.until.empty() ? "" : ",\"until\":" + quote(o.until);
    json += std::string(",\"named_only\":") + boolean(o.named) + ",\"views\":" + boolean(o.views);
    return json + ",\"selected\":" + json_list(counts.selected, [](const std::vector<size_t> & run) { return json_numbers(run); }) + "}";
}

}  // namespace

std::string manifest_json(const Ran & ran) {
    return "{\"format\":\"lockstep-dump\",\"version\":1,\"producer\":" + producer_json() +
           ",\"model\":" + model_json(ran.options, ran.model, ran.sha256) + ",\"run\":" + run_json(ran) +
           ",\"capture\":" + ran.run.comparison.json() + ",\"leaves\":" + ran.capture.leaves_json() +
           ",\"nodes\":" + ran.capture.nodes_json() + "}";
}

}  // namespace lockstep
