// Running: the captured context and a plain one, batch by batch beside each other.

#include "run.h"

#include "compat.h"
#include "text.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

namespace lockstep {

void Comparison::compare(size_t step, const Batch & batch, const Indices & indices, llama_context * captured, llama_context * plain,
                         size_t n_vocab) {
    for (size_t token = 0; token < indices.size(); token++) {
        if (!batch[indices[token]].output) {
            continue;
        }
        const float * a = llama_get_logits_ith(captured, static_cast<int32_t>(indices[token]));
        const float * b = llama_get_logits_ith(plain, static_cast<int32_t>(indices[token]));
        if (!a || !b) {
            fail("llama.cpp gave no logits for step " + std::to_string(step));
        }
        compared_ += n_vocab;
        for (size_t v = 0; v < n_vocab && unchanged(); v++) {
            if (std::memcmp(a + v, b + v, sizeof(float)) != 0) {
                difference_ = "{\"step\":" + std::to_string(step) + ",\"token\":" + std::to_string(token) + ",\"index\":" + std::to_string(v) +
                              ",\"captured\":" + quote(float_text(a[v])) + ",\"plain\":" + quote(float_text(b[v])) + "}";
            }
        }
    }
}

std::string Comparison::json() const {
    return std::string("{\"unchanged\":") + boolean(unchanged()) + ",\"compared_logits\":" + std::to_string(compared_) +
           ",\"first_difference\":" + (unchanged() ? "null" : difference_) + "}";
}

void Progress::evaluation_done() {
    done_++;
    const auto now = std::chrono::steady_clock::now();
    if (done_ < evaluations_ && now - last_ < std::chrono::seconds(2)) {
        return;
    }
    last_ = now;
    std::fprintf(stderr, "llama-dump: batch %zu of %zu, %zu nodes, %.1f MB\n", done_, evaluations_, counts_.nodes, static_cast<double>(npz_.size()) / 1e6);
}

namespace {

void decode(const Watched & watched, const Batch & tokens) {
    const auto n = static_cast<int32_t>(tokens.size());
    llama_batch batch = llama_batch_init(n, 0, 1);
    batch.n_tokens = n;
    for (int32_t i = 0; i < n; i++) {
        const BatchToken & token = tokens[static_cast<size_t>(i)];
        batch.token[i] = token.token;
        batch.pos[i] = token.position;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = token.seq_id;
        batch.logits[i] = static_cast<int8_t>(token.output);
    }
    const int32_t status = llama_decode(watched.context.get(), batch);
    llama_synchronize(watched.context.get());
    llama_batch_free(batch);
    if (!watched.observer->error.empty()) {
        fail(watched.observer->error);
    }
    if (status != 0) {
        fail("llama_decode failed with status " + std::to_string(status));
    }
}

/// Whether llama.cpp did it. `p0` is the first position that `back` removes.
bool change(const Watched & watched, const Action & action, llama_pos p0) {
    llama_memory_t memory = llama_get_memory(watched.context.get());
    switch (action.kind) {
        case ActionKind::Evaluate: return false;
        case ActionKind::Clear: llama_memory_clear(memory, false); return true;
        case ActionKind::Remove: return llama_memory_seq_rm(memory, action.seq_id, -1, -1);
        case ActionKind::Back: return llama_memory_seq_rm(memory, action.seq_id, p0, -1);
        case ActionKind::Copy: llama_memory_seq_cp(memory, action.seq_id, action.seq_id_dst, -1, -1); return true;
    }
    return false;
}

Ubatch make_ubatch(const Batch & batch, const Indices & indices) {
    Ubatch ubatch;
    for (const size_t i : indices) {
        ubatch.tokens.push_back(batch[i]);
    }
    return ubatch;
}

/// The first of the largest logits after a token of the batch.
llama_token greedy(llama_context * context, size_t i, size_t n_vocab) {
    const float * logits = llama_get_logits_ith(context, static_cast<int32_t>(i));
    return static_cast<llama_token>(std::max_element(logits, logits + n_vocab) - logits);
}

}  // namespace

Runner::Runner(const Options & options, const Plan & plan, const llama_model * model, const Watched & captured, const Watched & plain,
               Capture & capture, Progress progress)
    : options_(options), plan_(plan), model_(model), n_vocab_(static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)))),
      captured_(captured), plain_(plain), capture_(capture), progress_(progress), places_(options.sequences, options.all_logits),
      greedy_(plan.n_seq_max), last_tokens_(plan.n_seq_max) {}

Run Runner::run() {
    for (const Action & action : plan_.actions) {
        if (action.kind == ActionKind::Evaluate) {
            evaluate(places_.take(action));
        } else {
            change_memory(action);
        }
    }
    for (int32_t i = 0; i < options_.generate; i++) {
        std::vector<llama_token> tokens;
        for (const int32_t seq_id : places_.occupied()) {
            tokens.push_back(greedy_[static_cast<size_t>(seq_id)]);
        }
        evaluate(places_.take_generated(tokens));
    }
    return std::move(run_);
}

void Runner::change_memory(const Action & action) {
    const llama_pos p0 = action.kind == ActionKind::Back ? places_.back_to(action) : 0;
    warn_of_stale_state(action);
    for (const Watched * watched : { &captured_, &plain_ }) {
        if (!change(*watched, action, p0)) {
            fail("--schedule: llama.cpp cannot do '" + action.text + "'. A recurrent state cannot be taken back, unless with --rollback N" +
                 " the last N are kept (here " + std::to_string(options_.rollback) +
                 "); after a rollback the sequence needs a new token before the next one");
        }
    }
    if (action.kind == ActionKind::Copy) {
        greedy_[static_cast<size_t>(action.seq_id_dst)] = greedy_[static_cast<size_t>(action.seq_id)];
    }
    before_.push_back(places_.change(action));
}

/// A ubatch of T tokens gives the recurrent states after its last T tokens; older ones stay in the cache as they were, although
/// they are then as many tokens older (build_recurrent_attn in delta-net-base.cpp). llama.cpp takes them all the same.
void Runner::warn_of_stale_state(const Action & action) const {
    const bool recurrent = compat::is_hybrid(model_, 0) || llama_model_is_recurrent(model_);
    if (action.kind == ActionKind::Back && recurrent && action.n >= last_tokens_[static_cast<size_t>(action.seq_id)]) {
        std::fprintf(stderr, "llama-dump: WARNING: '%s' reaches beyond the last ubatch of the sequence; llama.cpp goes on from a wrong state\n",
                     action.text.c_str());
    }
}

void Runner::evaluate(const Batch & batch) {
    const std::vector<Indices> graphs = split(batch);
    const size_t first_step = run_.ubatches.size();
    std::vector<Batch> expected;
    for (const Indices & indices : graphs) {
        run_.ubatches.push_back(make_ubatch(batch, indices));
        expected.push_back(run_.ubatches.back().tokens);
        std::map<int32_t, int32_t> counts;
        for (const BatchToken & token : expected.back()) {
            last_tokens_[static_cast<size_t>(token.seq_id)] = ++counts[token.seq_id];
        }
    }
    run_.ubatches[first_step].before.swap(before_);
    capture_.begin_batch(std::move(expected));
    decode(captured_, batch);
    capture_.end_batch();
    decode(plain_, batch);
    for (size_t i = 0; i < graphs.size(); i++) {
        run_.comparison.compare(first_step + i, batch, graphs[i], captured_.context.get(), plain_.context.get(), n_vocab_);
    }
    for (size_t i = 0; i < batch.size(); i++) {
        if (batch[i].output) {
            greedy_[static_cast<size_t>(batch[i].seq_id)] = greedy(captured_.context.get(), i, n_vocab_);
        }
    }
    progress_.evaluation_done();
}

/// The graphs that llama.cpp makes of a batch, by the rule of the memory that the model has; the capture checks it against what
/// the graphs read.
std::vector<Indices> Runner::split(const Batch & batch) const {
    const size_t n_ubatch = llama_n_ubatch(captured_.context.get());
    const bool one_stream = options_.kv_unified || plan_.n_seq_max == 1;
    const size_t n_keep_tail = options_.rollback > 0 ? options_.rollback + 1 : 0;
    if (compat::is_hybrid(model_, 0)) {
        return split_equal(batch, n_ubatch, !one_stream, n_keep_tail);
    }
    if (llama_model_is_recurrent(model_)) {
        return split_equal(batch, n_ubatch, true, n_keep_tail);
    }
    return one_stream ? split_simple(batch, n_ubatch) : split_equal(batch, n_ubatch, true, 0);
}

}  // namespace lockstep
