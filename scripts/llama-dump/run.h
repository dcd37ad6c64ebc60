// Running: the captured context and a plain one, batch by batch beside each other.

#pragma once

#include "capture.h"
#include "model.h"
#include "npz.h"
#include "script.h"
#include "split.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// One evaluated graph.
struct Ubatch {
    Batch tokens;  // in the order of the graph
    std::vector<std::string> before;  // what was done to the memory since the ubatch before, as JSON
};

/// Whether capturing changed what the model computes: without a callback llama.cpp may fuse operators.
class Comparison {
public:
    /// Compares the logits that `indices`, the ubatch of a step, gave within its batch.
    void compare(size_t step, const Batch & batch, const Indices & indices, llama_context * captured, llama_context * plain, size_t n_vocab);

    bool unchanged() const { return difference_.empty(); }
    const std::string & difference() const { return difference_; }
    std::string json() const;

private:
    uint64_t compared_ = 0;
    std::string difference_;
};

struct Run {
    std::vector<Ubatch> ubatches;
    Comparison comparison;
};

/// A context and who watches it.
struct Watched {
    ContextPtr context;
    const Observer * observer;
};

class Progress {
public:
    Progress(size_t evaluations, const CaptureCounts & counts, const NpzWriter & npz) : evaluations_(evaluations), counts_(counts), npz_(npz) {}

    void evaluation_done();

private:
    size_t evaluations_, done_ = 0;
    const CaptureCounts & counts_;
    const NpzWriter & npz_;
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// Works off a plan with both contexts.
class Runner {
public:
    Runner(const Options & options, const Plan & plan, const llama_model * model, const Watched & captured, const Watched & plain,
           Capture & capture, Progress progress);

    Run run();

private:
    void change_memory(const Action & action);
    void warn_of_stale_state(const Action & action) const;
    void evaluate(const Batch & batch);
    std::vector<Indices> split(const Batch & batch) const;

    const Options & options_;
    const Plan & plan_;
    const llama_model * model_;
    size_t n_vocab_;
    const Watched &captured_, &plain_;
    Capture & capture_;
    Progress progress_;
    Places places_;
    std::vector<llama_token> greedy_;  // of each sequence, after its last token
    std::vector<int32_t> last_tokens_;  // of each sequence in its last ubatch
    std::vector<std::string> before_;
    Run run_;
};

}  // namespace lockstep
