// The schedule: what is evaluated, and what is done to the memory in between.

#include "script.h"

#include "numbers.h"
#include "options.h"
#include "text.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace lockstep {

namespace {

constexpr int32_t LAST_SEQUENCE = 255;  // LLAMA_MAX_SEQ - 1

int32_t parse_sequence(const std::string & text) {
    return static_cast<int32_t>(parse_integer("--schedule: sequence", text, 0, LAST_SEQUENCE));
}

int32_t parse_count(const std::string & text) {
    return static_cast<int32_t>(parse_integer("--schedule: tokens", text, 1, INT32_MAX));
}

/// `N`, `S:N`, or several of them joined by plus signs.
std::vector<Part> parse_parts(const std::string & text) {
    std::vector<Part> parts;
    for (const std::string & item : split_at(text, '+')) {
        const size_t colon = item.find(':');
        const bool named = colon != std::string::npos;
        const Part part = { named ? parse_sequence(item.substr(0, colon)) : 0, parse_count(named ? item.substr(colon + 1) : item) };
        for (const Part & other : parts) {
            if (other.seq_id == part.seq_id) {
                fail("--schedule: '" + text + "' names sequence " + std::to_string(part.seq_id) + " twice");
            }
        }
        parts.push_back(part);
    }
    return parts;
}

Action parse_action(const std::string & text) {
    Action action;
    action.text = text;
    const std::vector<std::string> words = split_at(text, ':');
    const auto is = [&](const char * verb, size_t n) { return words[0] == verb && words.size() == n; };
    if (is("clear", 1)) {
        action.kind = ActionKind::Clear;
    } else if (is("clear", 2)) {
        action.kind = ActionKind::Remove;
        action.seq_id = parse_sequence(words[1]);
    } else if (is("back", 3)) {
        action.kind = ActionKind::Back;
        action.seq_id = parse_sequence(words[1]);
        action.n = parse_count(words[2]);
    } else if (is("copy", 3)) {
        action.kind = ActionKind::Copy;
        action.seq_id = parse_sequence(words[1]);
        action.seq_id_dst = parse_sequence(words[2]);
        if (action.seq_id == action.seq_id_dst) {
            fail("--schedule: '" + text + "' copies a sequence to itself");
        }
    } else if (!text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) != 0) {
        fail("--schedule: '" + text + "' is none of N, S:N, A:N+B:M, clear, clear:S, back:S:N, copy:S:D");
    } else {
        action.parts = parse_parts(text);
    }
    return action;
}

size_t index(int32_t seq_id) {
    return static_cast<size_t>(seq_id);
}

}  // namespace

std::vector<Action> parse_schedule(const std::string & text) {
    std::vector<Action> actions;
    for (const std::string & item : split_at(text, ',')) {
        actions.push_back(parse_action(item));
    }
    return actions;
}

void Places::know(int32_t seq_id) {
    const size_t n = std::max(positions_.size(), index(seq_id) + 1);
    taken_.resize(n);
    positions_.resize(n);
    longest_.resize(n);
    has_logits_.resize(n);
}

void Places::move(int32_t seq_id, llama_pos position, bool has_logits) {
    positions_[index(seq_id)] = position;
    longest_[index(seq_id)] = std::max(longest_[index(seq_id)], position);
    has_logits_[index(seq_id)] = has_logits;
}

Batch Places::take(const Action & action) {
    Batch batch;
    int32_t most = 0;
    for (const Part & part : action.parts) {
        know(part.seq_id);
        const size_t given = index(part.seq_id) < sequences_.size() ? sequences_[index(part.seq_id)].tokens.size() : 0;
        if (static_cast<size_t>(part.n) > given - taken_[index(part.seq_id)]) {
            fail("--schedule: '" + action.text + "' needs " + std::to_string(taken_[index(part.seq_id)] + static_cast<size_t>(part.n)) +
                 " tokens of sequence " + std::to_string(part.seq_id) + ", but there are " + std::to_string(given) +
                 " (the n-th -t or -p gives those of sequence n-1)");
        }
        most = std::max(most, part.n);
    }
    for (int32_t i = 0; i < most; i++) {
        for (const Part & part : action.parts) {
            if (i < part.n) {
                const llama_token token = sequences_[index(part.seq_id)].tokens[taken_[index(part.seq_id)]++];
                const llama_pos position = positions_[index(part.seq_id)];
                batch.push_back({ token, position, part.seq_id, all_logits_ || i + 1 == part.n });
                move(part.seq_id, position + 1, true);
            }
        }
    }
    return batch;
}

Batch Places::take_generated(const std::vector<llama_token> & tokens) {
    Batch batch;
    for (const int32_t seq_id : occupied()) {
        const llama_pos position = positions_[index(seq_id)];
        batch.push_back({ tokens[batch.size()], position, seq_id, true });
        move(seq_id, position + 1, true);
    }
    return batch;
}

llama_pos Places::back_to(const Action & action) const {
    return positions_[index(action.seq_id)] - action.n;
}

std::string Places::change(const Action & action) {
    know(std::max(action.seq_id, action.seq_id_dst));
    const std::string removed = "{\"op\":\"seq_rm\",\"seq_id\":" + std::to_string(action.seq_id) + ",\"p0\":";
    switch (action.kind) {
        case ActionKind::Evaluate: break;
        case ActionKind::Clear:
            for (size_t seq_id = 0; seq_id < positions_.size(); seq_id++) {
                move(static_cast<int32_t>(seq_id), 0, false);
            }
            return "{\"op\":\"clear\"}";
        case ActionKind::Remove: move(action.seq_id, 0, false); return removed + "0}";
        case ActionKind::Back: {
            const llama_pos p0 = back_to(action);
            if (p0 < 0) {
                fail("--schedule: '" + action.text + "' takes back more tokens than the " +
                     std::to_string(positions_[index(action.seq_id)]) + " that the sequence has");
            }
            move(action.seq_id, p0, false);
            return removed + std::to_string(p0) + "}";
        }
        case ActionKind::Copy:
            if (positions_[index(action.seq_id)] == 0) {
                fail("--schedule: '" + action.text + "' copies a sequence that has no tokens");
            }
            if (positions_[index(action.seq_id_dst)] != 0) {
                fail("--schedule: '" + action.text + "' copies over a sequence that has tokens; clear it first, as llama.cpp expects");
            }
            move(action.seq_id_dst, positions_[index(action.seq_id)], has_logits_[index(action.seq_id)]);
            return "{\"op\":\"seq_cp\",\"seq_id_src\":" + std::to_string(action.seq_id) +
                   ",\"seq_id_dst\":" + std::to_string(action.seq_id_dst) + "}";
    }
    fail("--schedule: '" + action.text + "' does not change the memory");
}

std::vector<int32_t> Places::occupied() const {
    std::vector<int32_t> out;
    for (size_t seq_id = 0; seq_id < positions_.size(); seq_id++) {
        if (positions_[seq_id] > 0) {
            out.push_back(static_cast<int32_t>(seq_id));
        }
    }
    return out;
}

void Places::expect_all_taken() const {
    for (size_t seq_id = 0; seq_id < sequences_.size(); seq_id++) {
        const size_t taken = seq_id < taken_.size() ? taken_[seq_id] : 0, given = sequences_[seq_id].tokens.size();
        if (taken != given) {
            fail("--schedule adds up to " + std::to_string(taken) + " tokens of sequence " + std::to_string(seq_id) + ", but there are " +
                 std::to_string(given));
        }
    }
}

namespace {

void plan_generated(Places & places, const Options & o, Plan & plan) {
    const std::vector<int32_t> sequences = places.occupied();
    if (o.generate > 0 && sequences.empty()) {
        fail("--generate: the schedule leaves no sequence with tokens");
    }
    for (const int32_t seq_id : sequences) {
        if (o.generate > 0 && !places.has_logits(seq_id)) {
            fail("--generate: the last tokens of sequence " + std::to_string(seq_id) +
                 " were taken back, so that there are no logits after the one before; evaluate another token first");
        }
    }
    for (int32_t i = 0; i < o.generate; i++) {
        places.take_generated(std::vector<llama_token>(sequences.size()));
        plan.n_batch = std::max(plan.n_batch, static_cast<uint32_t>(sequences.size()));
    }
}

/// The cells that the sequences need: llama.cpp deals the context out to them in equal parts unless they share one buffer.
void plan_context(const Places & places, const Options & o, Plan & plan) {
    const std::vector<llama_pos> & longest = places.longest();
    plan.n_seq_max = static_cast<uint32_t>(longest.size());
    const uint32_t parts = o.kv_unified ? 1 : plan.n_seq_max;
    const auto needed = static_cast<uint32_t>(o.kv_unified ? std::accumulate(longest.begin(), longest.end(), 0)
                                                           : *std::max_element(longest.begin(), longest.end()));
    if (o.n_ctx != 0 && o.n_ctx / parts < needed) {
        fail("--ctx " + std::to_string(o.n_ctx) + " is too small for " + std::to_string(needed) + " tokens" +
             (parts > 1 ? " in each of " + std::to_string(parts) + " sequences" : ""));
    }
    plan.n_ctx = o.n_ctx != 0 ? o.n_ctx : (needed + 255) / 256 * 256 * parts;
}

}  // namespace

Plan make_plan(const Options & o) {
    Plan plan;
    plan.actions = o.actions;
    for (size_t seq_id = 0; o.actions.empty() && seq_id < o.sequences.size(); seq_id++) {
        Action all;
        all.parts = { { static_cast<int32_t>(seq_id), static_cast<int32_t>(o.sequences[seq_id].tokens.size()) } };
        plan.actions.push_back(all);
    }
    plan.script = o.schedule.find_first_not_of("0123456789,") == std::string::npos ? "" : o.schedule;
    Places places(o.sequences, o.all_logits);
    for (const Action & action : plan.actions) {
        if (action.kind != ActionKind::Evaluate) {
            places.change(action);
            continue;
        }
        const auto n = static_cast<int32_t>(places.take(action).size());
        plan.evaluations.push_back(n);
        plan.n_batch = std::max(plan.n_batch, static_cast<uint32_t>(n));
    }
    places.expect_all_taken();
    if (plan.actions.back().kind != ActionKind::Evaluate && o.generate == 0) {
        fail("--schedule ends with '" + plan.actions.back().text + "', after which nothing is evaluated");
    }
    plan_generated(places, o, plan);
    plan_context(places, o, plan);
    // llama.cpp wants more room in a ubatch than the tokens whose states it keeps, and an output of each sequence in a batch.
    plan.n_batch = std::max({ plan.n_batch, plan.n_seq_max, o.rollback > 0 ? o.rollback + 2 : 1 });
    return plan;
}

}  // namespace lockstep
