// How llama.cpp splits a batch into ubatches, one graph each (llama-batch.cpp).

#include "split.h"

#include "text.h"

#include <algorithm>

namespace lockstep {

namespace {

/// A sequence in the ubatch that is being made: its tokens that are left, and how many of them it takes.
struct Share {
    int32_t seq_id;
    Indices left;
    size_t taken = 0;

    size_t remaining() const { return left.size() - taken; }
};

/// The sequences that take part in the next ubatch.
std::vector<Share> participants(const Batch & batch, const std::vector<bool> & used, size_t n_ubatch, bool sequential) {
    std::vector<Share> shares;
    for (size_t i = 0; i < batch.size() && shares.size() <= n_ubatch; i++) {
        if (used[i]) {
            continue;
        }
        const int32_t seq_id = batch[i].seq_id;
        const auto known = std::find_if(shares.begin(), shares.end(), [&](const Share & share) { return share.seq_id == seq_id; });
        if (known == shares.end() && (!sequential || shares.empty() || seq_id == shares.back().seq_id + 1)) {
            shares.push_back({ seq_id, {} });
        }
    }
    for (size_t i = 0; i < batch.size(); i++) {
        for (Share & share : shares) {
            if (!used[i] && batch[i].seq_id == share.seq_id) {
                share.left.push_back(i);
            }
        }
    }
    return shares;
}

/// Sequences whose last `n_keep_tail` tokens would be torn apart wait for a later ubatch; the first one never waits.
void keep_tails(std::vector<Share> & shares, size_t n_ubatch, size_t n_keep_tail) {
    const auto torn = [&](const Share & share) { return share.remaining() != 0 && share.remaining() < n_keep_tail; };
    const auto first_torn = std::find_if(shares.begin(), shares.end(), torn);
    if (first_torn != shares.begin()) {
        shares.erase(first_torn, shares.end());
        return;
    }
    Share & first = shares.front();
    first.taken = first.left.size() <= n_ubatch ? first.left.size() : first.left.size() - n_keep_tail;
    shares.erase(shares.begin() + 1, shares.end());
}

}  // namespace

std::vector<Indices> split_simple(const Batch & batch, size_t n_ubatch) {
    std::vector<Indices> ubatches;
    for (size_t i = 0; i < batch.size(); i++) {
        if (i % n_ubatch == 0) {
            ubatches.emplace_back();
        }
        ubatches.back().push_back(i);
    }
    return ubatches;
}

std::vector<Indices> split_equal(const Batch & batch, size_t n_ubatch, bool sequential, size_t n_keep_tail) {
    std::vector<Indices> ubatches;
    std::vector<bool> used(batch.size());
    for (;;) {
        std::vector<Share> shares = participants(batch, used, n_ubatch, sequential);
        if (shares.empty()) {
            return ubatches;
        }
        size_t most = batch.size();
        for (const Share & share : shares) {
            most = std::min(most, share.left.size());
        }
        // One token of each is taken even where that is more than n_ubatch.
        const size_t each = std::min(most, std::max<size_t>(1, n_ubatch / shares.size()));
        for (Share & share : shares) {
            share.taken = each;
        }
        if (n_keep_tail > 0) {
            keep_tails(shares, n_ubatch, n_keep_tail);
        }
        ubatches.emplace_back();
        for (const Share & share : shares) {
            for (size_t i = 0; i < share.taken; i++) {
                ubatches.back().push_back(share.left[i]);
                used[share.left[i]] = true;
            }
        }
    }
}

}  // namespace lockstep
