// Capturing one graph after the other.

#pragma once

#include "npz.h"
#include "options.h"
#include "script.h"
#include "tensors.h"
#include "text.h"

#include "ggml-backend.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep {

struct CaptureCounts {
    size_t nodes = 0, non_finite = 0;
    bool fused_gdn = false, unfused_gdn = false;
    std::vector<std::vector<size_t>> selected;  // first and last id of each run of selected nodes
};

class Capture {
public:
    Capture(const Options & options, NpzWriter & npz) : options_(options), npz_(npz) {}

    /// Starts a batch; `graphs` is what its graphs must read, each a step of its own.
    void begin_batch(std::vector<Batch> graphs) {
        graphs_ = std::move(graphs);
        n_begun_ = 0;
    }

    void end_batch() {
        if (n_begun_ != graphs_.size()) {
            fail("llama.cpp made " + std::to_string(n_begun_) + " graphs of a batch, where its rule for splitting gives " +
                 std::to_string(graphs_.size()));
        }
        end_step();
    }

    /// Input leaves are read here, before the node runs: ggml may give their memory to a later result.
    void before(const ggml_tensor * t) {
        if (begins_graph(t)) {
            begin_step();
        }
        if (ended_) {
            return;
        }
        for (const ggml_tensor * source : sources_of(t)) {
            if (source) {
                resolve(source);
            }
        }
        if (t->view_src) {
            resolve(t->view_src);
        }
    }

    void after(const ggml_tensor * t) {
        const std::string name = t->name;
        note_delta_net(t, name);
        if (ended_) {
            return;
        }
        Node node;
        node.id = counts_.nodes++;
        const int occurrence = occurrences_[name]++;
        node.json = node_json(t, node.id, name, occurrence);
        Node * root = root_node(t);
        note_selected(t, name, node.id);
        if (wants_payload(t, name, root)) {
            node.entry = store(t, name, occurrence);
            lend_entry_to_root(t, node, root);
        }
        if (root && !is_pure_view(t)) {
            root->overwritten = true;
        }
        node_at_[t] = step_nodes_.size();
        step_nodes_.push_back(std::move(node));
        ended_ = !options_.until.empty() && std::regex_search(name, options_.until_pattern);
    }

    const CaptureCounts & counts() const { return counts_; }
    std::string nodes_json() const { return "[" + nodes_json_ + "]"; }
    std::string leaves_json() const { return "[" + leaves_json_ + "]"; }

private:
    /// Whether the node is the first of another graph: a graph holds a node once and reads one leaf of token ids, and llama.cpp
    /// builds the next graph at the same addresses.
    bool begins_graph(const ggml_tensor * t) const {
        const auto other_tokens = [&](const ggml_tensor * source) { return source && is_tokens(source) && tokens_ && source != tokens_; };
        const std::vector<const ggml_tensor *> sources = sources_of(t);
        return n_begun_ == 0 || node_at_.count(t) != 0 || std::any_of(sources.begin(), sources.end(), other_tokens);
    }

    void begin_step() {
        if (n_begun_ > 0) {
            end_step();
        }
        if (n_begun_ == graphs_.size()) {
            fail("llama.cpp made more graphs of a batch than the " + std::to_string(graphs_.size()) + " that its rule for splitting gives");
        }
        n_begun_++;
        step_++;
    }

    /// Ends a step: from here on the same addresses mean other tensors.
    void end_step() {
        if (!tokens_) {
            fail("step " + std::to_string(step_) + ": the graph reads no inp_tokens, so that its tokens are not known");
        }
        if (!options_.until.empty() && !ended_) {
            fail("--until: step " + std::to_string(step_) + " has no tensor whose name contains a match of '" + options_.until + "'");
        }
        ended_ = false;
        for (const Node & node : step_nodes_) {
            nodes_json_ += (nodes_json_.empty() ? "" : ",") + node.json + entry_json(node.entry);
        }
        step_nodes_.clear();
        node_at_.clear();
        occurrences_.clear();
        step_leaves_.clear();
        tokens_ = nullptr;
    }

    struct Node {
        size_t id = 0;
        std::string json;   // all but the entry, which a later view may still decide
        std::string entry;  // empty: no payload
        bool overwritten = false;
    };

    bool selected(const ggml_tensor * t, const std::string & name) const {
        if (ggml_nelements(t) == 0 || (options_.named && !is_given_name(name))) {
            return false;
        }
        const auto matches = [&](const Filter & filter) { return filter.matches(step_, name); };
        return options_.filters.empty() || std::any_of(options_.filters.begin(), options_.filters.end(), matches);
    }

    void note_selected(const ggml_tensor * t, const std::string & name, size_t id) {
        if (!selected(t, name)) {
            return;
        }
        if (!counts_.selected.empty() && counts_.selected.back()[1] + 1 == id) {
            counts_.selected.back()[1] = id;
        } else {
            counts_.selected.push_back({ id, id });
        }
    }

    /// A pure view is read from its root's payload, as long as that is what the root's memory still holds.
    bool wants_payload(const ggml_tensor * t, const std::string & name, const Node * root) const {
        if (!selected(t, name) || !can_gather(t)) {
            return false;
        }
        if (options_.views || !is_pure_view(t)) {
            return true;
        }
        const bool derivable = root && !root->entry.empty() && !root->overwritten && ggml_is_contiguous(t->view_src);
        return root && !derivable;
    }

    std::string store(const ggml_tensor * t, const std::string & name, int occurrence) {
        gather(t, payload_);
        counts_.non_finite += has_non_finite(t->type, payload_) ? 1 : 0;
        const std::string suffix = occurrence > 0 ? "." + std::to_string(occurrence) : "";
        // Raw bytes say nothing about the width of a row, so such payloads are shared only between equal shapes.
        const bool raw = npy_descr(t->type) == "|u1";
        const std::string kind = ggml_type_name(t->type) + (raw ? json_numbers(trimmed_ne(t)) : "");
        return npz_.add_once(std::to_string(step_) + "/" + entry_part(name) + suffix, kind, npy_descr(t->type), npy_shape(t), payload_);
    }

    /// A view that shows all of a root without an entry is the root's payload too.
    static void lend_entry_to_root(const ggml_tensor * t, const Node & node, Node * root) {
        const bool whole = root && is_pure_view(t) && t->view_offs == 0 && ggml_is_contiguous(t) && ggml_is_contiguous(t->view_src) &&
                           t->type == t->view_src->type && ggml_nelements(t) == ggml_nelements(t->view_src);
        if (whole && root->entry.empty() && !root->overwritten) {
            root->entry = node.entry;
        }
    }

    Node * root_node(const ggml_tensor * t) {
        const auto found = node_at_.find(t->view_src);
        return found == node_at_.end() ? nullptr : &step_nodes_[found->second];
    }

    std::string node_json(const ggml_tensor * t, size_t id, const std::string & name, int occurrence) {
        std::string json = "{\"id\":" + std::to_string(id) + ",\"step\":" + std::to_string(step_) + ",\"name\":" + quote(name) +
                           ",\"occurrence\":" + std::to_string(occurrence) + ",\"op\":" + quote(ggml_op_name(t->op));
        const std::string variant = variant_of(t);
        if (!variant.empty()) {
            json += ",\"variant\":" + quote(variant);
        }
        json += ",\"params\":" + json_numbers(params_of(t)) + "," + layout_json(t) + ",\"contiguous\":" + boolean(ggml_is_contiguous(t));
        json += ",\"sources\":" + sources_json(t) + ",\"view_of\":";
        if (!t->view_src) {
            return json + "null";
        }
        return json + "{" + resolve(t->view_src) + ",\"offset\":" + std::to_string(t->view_offs) + "}";
    }

    std::string sources_json(const ggml_tensor * t) {
        return json_list(sources_of(t), [&](const ggml_tensor * source) { return source ? "{" + resolve(source) + "}" : std::string("null"); });
    }

    /// `"node":3,"name":".."` or `"leaf":3,"name":".."`; a leaf that was not met before is recorded.
    std::string resolve(const ggml_tensor * t) {
        const auto node = node_at_.find(t);
        std::string key;
        if (node != node_at_.end()) {
            key = "\"node\":" + std::to_string(step_nodes_[node->second].id);
        } else {
            key = "\"leaf\":" + std::to_string(leaf_id(t));
        }
        return key + ",\"name\":" + quote(t->name);
    }

    size_t leaf_id(const ggml_tensor * t) {
        const auto & known = is_input(t) ? step_leaves_ : lasting_leaves_;
        const auto found = known.find(t);
        if (found != known.end()) {
            return found->second;
        }
        if (t->op != GGML_OP_NONE) {
            fail(std::string("'") + t->name + "' is read before it was evaluated, so the graph cannot be recorded");
        }
        return record_leaf(t);
    }

    /// A leaf is told by its memory: that of the weights, that of the graph (inputs), or one that lasts and is neither, which only
    /// caches have. Some models give theirs other names.
    static const char * kind_of(const ggml_tensor * t) {
        const ggml_tensor * root = t->view_src ? t->view_src : t;
        if (starts_with(root->name, "cache_")) {
            return "cache";
        }
        if (!root->buffer || (root->flags & GGML_TENSOR_FLAG_INPUT)) {
            return "input";
        }
        switch (ggml_backend_buffer_get_usage(root->buffer)) {
            case GGML_BACKEND_BUFFER_USAGE_WEIGHTS: return "weight";
            case GGML_BACKEND_BUFFER_USAGE_COMPUTE: return "input";
            default: return "cache";
        }
    }

    static bool is_input(const ggml_tensor * t) { return std::strcmp(kind_of(t), "input") == 0; }

    size_t record_leaf(const ggml_tensor * t) {
        const size_t id = n_leaves_++;
        const bool input = is_input(t);
        std::string entry;
        if (input && ggml_nelements(t) > 0 && can_gather(t)) {
            gather(t, payload_);
            entry = npz_.unique_name(std::to_string(step_) + "/" + entry_part(t->name));
            npz_.add(entry, npy_descr(t->type), npy_shape(t), payload_);
        }
        if (input && is_tokens(t)) {
            tokens_ = t;
            expect_input(t, [](const BatchToken & token) { return token.token; });
        } else if (input && std::strcmp(t->name, "inp_pos") == 0) {
            expect_input(t, [](const BatchToken & token) { return token.position; });
        }
        leaves_json_ += (leaves_json_.empty() ? "{" : ",{") + std::string("\"id\":") + std::to_string(id) +
                        ",\"step\":" + (input ? std::to_string(step_) : "null") + ",\"name\":" + quote(t->name) +
                        ",\"kind\":" + quote(kind_of(t)) + "," + layout_json(t) + entry_json(entry);
        (input ? step_leaves_ : lasting_leaves_)[t] = id;
        return id;
    }

    static bool is_tokens(const ggml_tensor * t) { return std::strcmp(t->name, "inp_tokens") == 0; }

    /// That the input just gathered begins with what the ubatch has (an M-RoPE position is several numbers, the first as usual).
    template <class Field>
    void expect_input(const ggml_tensor * t, Field field) const {
        const Batch & ubatch = graphs_[n_begun_ - 1];
        std::vector<int32_t> expected, got(std::min(payload_.size() / sizeof(int32_t), ubatch.size()));
        for (const BatchToken & token : ubatch) {
            expected.push_back(field(token));
        }
        std::memcpy(got.data(), payload_.data(), got.size() * sizeof(int32_t));
        if (t->type != GGML_TYPE_I32 || t->ne[0] % static_cast<int64_t>(ubatch.size()) != 0 || got != expected) {
            fail("step " + std::to_string(step_) + ": " + t->name + " of the graph is " + json_numbers(got) + ", the schedule has " +
                 json_numbers(expected) + "; llama.cpp split the batch in a way that llama-dump does not know");
        }
    }

    /// A tensor's name inside an entry name, where a slash would start a folder.
    static std::string entry_part(std::string name) {
        std::replace(name.begin(), name.end(), '/', '_');
        return name;
    }

    void note_delta_net(const ggml_tensor * t, const std::string & name) {
        counts_.fused_gdn |= std::strcmp(ggml_op_name(t->op), "GATED_DELTA_NET") == 0;
        // Both builders of plain operators name their beta so, and nothing else does.
        counts_.unfused_gdn |= starts_with(name, "b_in-");
    }

    const Options & options_;
    NpzWriter & npz_;
    CaptureCounts counts_;
    std::string nodes_json_, leaves_json_;
    std::vector<uint8_t> payload_;
    std::vector<Batch> graphs_;  // what the graphs of the batch must read
    size_t n_begun_ = 0;         // how many of them have begun
    const ggml_tensor * tokens_ = nullptr;  // the graph's inp_tokens
    int32_t step_ = -1;
    bool ended_ = false;  // --until was met in this step
    size_t n_leaves_ = 0;
    std::vector<Node> step_nodes_;
    std::unordered_map<const ggml_tensor *, size_t> node_at_;       // position in step_nodes_
    std::unordered_map<const ggml_tensor *, size_t> step_leaves_;   // inputs belong to one graph
    std::unordered_map<const ggml_tensor *, size_t> lasting_leaves_;  // weights and caches outlive it
    std::unordered_map<std::string, int> occurrences_;
};

}  // namespace lockstep
