// The schedule: what is evaluated, and what is done to the memory in between.

#pragma once

#include "llama.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct TokenList;
struct Options;

/// The next `n` tokens of a sequence.
struct Part {
    int32_t seq_id, n;
};

enum class ActionKind {
    Evaluate,  // the parts, in one batch
    Clear,     // all sequences
    Remove,    // sequence `seq_id`
    Back,      // the last `n` tokens of `seq_id`
    Copy,      // `seq_id` to `seq_id_dst`
};

/// An entry of the schedule.
struct Action {
    std::string text;  // as given
    ActionKind kind = ActionKind::Evaluate;
    std::vector<Part> parts;
    int32_t seq_id = 0, seq_id_dst = 0, n = 0;
};

std::vector<Action> parse_schedule(const std::string & text);

struct BatchToken {
    llama_token token;
    llama_pos position;
    int32_t seq_id;
    bool output;
};

/// What one call of llama_decode is given.
using Batch = std::vector<BatchToken>;

/// Where every sequence stands while the schedule is worked off. It is worked off twice: once to see that it can be, and what
/// it needs, and once with llama.cpp.
class Places {
public:
    Places(const std::vector<TokenList> & sequences, bool all_logits) : sequences_(sequences), all_logits_(all_logits) {}

    /// The batch of an action that evaluates; the sequences move on.
    Batch take(const Action & action);

    /// A batch of `tokens`, one for each sequence that has tokens, in order of sequence.
    Batch take_generated(const std::vector<llama_token> & tokens);

    /// Moves sequences as an action does that changes the memory. Returns what the manifest says of it.
    std::string change(const Action & action);

    /// The first position that `back` removes.
    llama_pos back_to(const Action & action) const;

    /// The sequences that have tokens, ascending.
    std::vector<int32_t> occupied() const;

    /// That every token of the lists was evaluated.
    void expect_all_taken() const;

    /// The most positions that each sequence held.
    const std::vector<llama_pos> & longest() const { return longest_; }

    /// Whether the token after the sequence's last one can be told from logits.
    bool has_logits(int32_t seq_id) const { return has_logits_[static_cast<size_t>(seq_id)]; }

private:
    void know(int32_t seq_id);
    void move(int32_t seq_id, llama_pos position, bool has_logits);

    const std::vector<TokenList> & sequences_;
    bool all_logits_;
    std::vector<size_t> taken_;
    std::vector<llama_pos> positions_, longest_;
    std::vector<bool> has_logits_;
};

/// What the schedule needs of a context.
struct Plan {
    std::vector<Action> actions;
    std::vector<int32_t> evaluations;  // tokens of each that was asked for
    std::string script;                // the schedule as given, if it says more than a list of numbers
    uint32_t n_seq_max = 1, n_ctx = 0, n_batch = 1;
};

/// Works the schedule off without llama.cpp. The options' token lists must be complete.
Plan make_plan(const Options & options);

}  // namespace lockstep
