// The command line.

#include "options.h"

#include "numbers.h"
#include "text.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>

namespace lockstep {

namespace {

const char * const HELP =
    R"(llama-dump: run a model in llama.cpp and write every tensor of the run, with its graph, as one .npz file

usage: llama-dump -m MODEL (-t IDS | -p TEXT).. --out FILE.npz [options]

  -m, --model FILE         a GGUF file; of a split model the first part (whose hash then stands for the model)
  -t, --tokens 1,2,3       token ids, in the order in which they are evaluated
  -p, --prompt TEXT        text, for a model with a tokenizer; special tokens are added and parsed
                           -t and -p may be repeated: the first gives the tokens of sequence 0, the second those of 1, ..
      --out FILE.npz       written under a temporary name and renamed at the end
      --schedule 7,1,1     what is done, in order; it must use up all tokens (default: all tokens of sequence 0 in one batch,
                           then those of 1, ..)
                             N         a batch of the next N tokens of sequence 0
                             S:N       a batch of the next N tokens of sequence S
                             0:4+1:2   a batch of both, one token of each in turn: 0 1 0 1 0 0
                             clear     all sequences start again at position 0; the memory keeps its data
                             clear:S   sequence S starts again at position 0
                             back:S:N  the last N tokens of sequence S are taken back; of a model with recurrent layers no more than
                                       --rollback, and fewer than the last ubatch of the sequence has
                             copy:S:D  sequence D becomes a copy of S, and goes on at its position
      --generate N         then append N batches, each of one greedy token for every sequence that has tokens
      --ubatch N           most tokens in one evaluation of the graph (default: the largest batch). llama.cpp splits a larger
                           batch, and one of sequences with different lengths; each graph is a step of the dump
      --kv-unified on|off  one KV buffer for all sequences (default off: one for each)
      --rollback N         keep N recurrent states for taking tokens back (default 0: a model with recurrent layers cannot)
      --filter REGEX       store tensors whose name contains a match (ECMAScript, case-sensitive); may be repeated, any may match.
                           A leading step or range limits it: "0:REGEX", "1-3:REGEX", "2-:REGEX"
      --until REGEX        record the graph of each step only up to its first tensor whose name contains a match
      --named              store only tensors that llama.cpp gives a name
      --views              store every view as an entry of its own, views of caches too
      --all-logits         ask for the logits of every token, not only of the last of each sequence in a batch
      --threads N          (default 1)
      --ctx N              context size (default: what the sequences need, each rounded up to 256)
      --type-k T           type of the K cache (default f32)
      --type-v T           type of the V cache (default f32)
      --flash-attn on|off  (default off: with it, K and V are rounded to f16 even in an f32 cache)
      --repack on|off      repacked weights (default off)
      --reference-kernels  the CPU backend's plain kernels, without tiling: every node is computed again with them
  -h, --help

exit status: 0 written; 2 could not run, nothing written; 3 written, but capturing changed the logits
)";

std::vector<llama_token> parse_tokens(const std::string & flag, const std::string & text) {
    std::vector<llama_token> out;
    for (const std::string & item : split_at(text, ',')) {
        out.push_back(static_cast<llama_token>(parse_integer(flag, item, 0, INT32_MAX)));
    }
    return out;
}

bool parse_switch(const std::string & flag, const std::string & text) {
    if (text != "on" && text != "off") {
        fail(flag + ": expected on or off, got '" + text + "'");
    }
    return text == "on";
}

ggml_type parse_type(const std::string & flag, const std::string & text) {
    for (int i = 0; i < GGML_TYPE_COUNT; i++) {
        const auto type = static_cast<ggml_type>(i);
        const char * name = ggml_type_name(type);
        if (name && text == name && ggml_blck_size(type) > 0) {
            return type;
        }
    }
    fail(flag + ": unknown type '" + text + "'");
}

Filter parse_filter(const std::string & text) {
    static const std::regex prefix("^([0-9]+)(-([0-9]*))?:");
    Filter filter;
    filter.text = text;
    std::smatch match;
    std::string pattern = text;
    if (std::regex_search(text, match, prefix)) {
        filter.first_step = parse_integer("--filter", match[1], 0, INT32_MAX);
        const bool range = match[2].matched, open = range && match[3].length() == 0;
        filter.last_step = !range ? filter.first_step : open ? INT64_MAX : parse_integer("--filter", match[3], filter.first_step, INT32_MAX);
        pattern = match.suffix();
    }
    try {
        filter.pattern = std::regex(pattern, std::regex::ECMAScript | std::regex::optimize);
    } catch (const std::regex_error & error) {
        fail("--filter: '" + pattern + "' is not a regular expression: " + error.what());
    }
    return filter;
}

std::regex parse_until(const std::string & text) {
    try {
        return std::regex(text, std::regex::ECMAScript | std::regex::optimize);
    } catch (const std::regex_error & error) {
        fail("--until: '" + text + "' is not a regular expression: " + error.what());
    }
}

/// The flags that take a value, and what each does with it.
std::map<std::string, std::function<void(const std::string &, const std::string &)>> value_flags(Options & o) {
    return {
        { "--model", [&](auto &, auto & v) { o.model = v; } },
        { "--out", [&](auto &, auto & v) { o.out = v; } },
        { "--tokens", [&](auto & f, auto & v) { o.sequences.push_back({ parse_tokens(f, v), "", false }); } },
        { "--prompt", [&](auto &, auto & v) { o.sequences.push_back({ {}, v, true }); } },
        { "--schedule", [&](auto &, auto & v) { o.schedule = v, o.actions = parse_schedule(v); } },
        { "--generate", [&](auto & f, auto & v) { o.generate = static_cast<int32_t>(parse_integer(f, v, 0, INT32_MAX)); } },
        { "--filter", [&](auto &, auto & v) { o.filters.push_back(parse_filter(v)); } },
        { "--until", [&](auto &, auto & v) { o.until = v, o.until_pattern = parse_until(v); } },
        { "--threads", [&](auto & f, auto & v) { o.threads = static_cast<int32_t>(parse_integer(f, v, 1, 1024)); } },
        { "--ctx", [&](auto & f, auto & v) { o.n_ctx = static_cast<uint32_t>(parse_integer(f, v, 1, INT32_MAX)); } },
        { "--ubatch", [&](auto & f, auto & v) { o.n_ubatch = static_cast<uint32_t>(parse_integer(f, v, 1, INT32_MAX)); } },
        { "--rollback", [&](auto & f, auto & v) { o.rollback = static_cast<uint32_t>(parse_integer(f, v, 0, 1024)); } },
        { "--kv-unified", [&](auto & f, auto & v) { o.kv_unified = parse_switch(f, v); } },
        { "--type-k", [&](auto & f, auto & v) { o.type_k = parse_type(f, v); } },
        { "--type-v", [&](auto & f, auto & v) { o.type_v = parse_type(f, v); } },
        { "--flash-attn", [&](auto & f, auto & v) { o.flash_attn = parse_switch(f, v); } },
        { "--repack", [&](auto & f, auto & v) { o.repack = parse_switch(f, v); } },
    };
}

}  // namespace

Options parse_options(int argc, char ** argv) {
    Options o;
    const auto valued = value_flags(o);
    const std::map<std::string, bool *> plain = {
        { "--named", &o.named }, { "--views", &o.views }, { "--all-logits", &o.all_logits }, { "--reference-kernels", &o.reference_kernels }
    };
    const std::map<std::string, std::string> short_names = { { "-m", "--model" }, { "-t", "--tokens" }, { "-p", "--prompt" } };
    for (int i = 1; i < argc; i++) {
        const auto long_name = short_names.find(argv[i]);
        const std::string flag = long_name == short_names.end() ? argv[i] : long_name->second;
        if (flag == "-h" || flag == "--help") {
            std::fputs(HELP, stdout);
            std::exit(0);
        }
        const auto value = valued.find(flag);
        const auto toggle = plain.find(flag);
        if (toggle != plain.end()) {
            *toggle->second = true;
        } else if (value == valued.end()) {
            fail("unknown option '" + flag + "' (see --help)");
        } else if (i + 1 == argc) {
            fail(flag + " needs a value");
        } else {
            value->second(flag, argv[++i]);
        }
    }
    if (o.model.empty() || o.out.empty()) {
        fail("-m MODEL and --out FILE.npz are needed (see --help)");
    }
    if (o.reference_kernels && o.repack) {
        fail("--reference-kernels cannot read repacked weights; leave out --repack on");
    }
    if (o.sequences.empty()) {
        fail("give -t IDS or -p TEXT (see --help)");
    }
    if (o.rollback > 0 && o.n_ubatch != 0 && o.n_ubatch < o.rollback + 2) {
        fail("--rollback " + std::to_string(o.rollback) + " needs --ubatch " + std::to_string(o.rollback + 2) +
             " or more: llama.cpp keeps the last " + std::to_string(o.rollback + 1) + " tokens of a sequence in one ubatch");
    }
    return o;
}

}  // namespace lockstep
