#include "tokenizer/csrc/merge_rules.h"

#include <array>
#include <stdexcept>
#include <string>

namespace unladen::tok {
namespace {

// Whether `both` is the result of the merge `merge`, whose left text has `left` bytes.
bool is_merge(std::string_view merge, size_t left, std::string_view both) {
    return merge.size() == both.size() + 1 && merge.substr(0, left) == both.substr(0, left) &&
           merge.substr(left + 1) == both.substr(left);
}

}  // namespace

size_t MergeRules::probe(std::string_view both, size_t left, uint64_t h) const {
    return ranks_.probe(h, [&](int32_t i) { return cut(i) == left && merged(i) == both; });
}

void MergeRules::push(std::string_view both, size_t left, int32_t id) {
    const uint32_t token = static_cast<uint32_t>(id) << kCutBits;
    if (id >= 0 && id < 1 << (31 - kCutBits) && left < 1 << kCutBits) {
        merges_.push_back(token | static_cast<uint32_t>(left));
        return;
    }
    merges_.push_back(kOther | static_cast<uint32_t>(others_.size()));
    others_.push(both);
    cuts_.push_back(static_cast<uint32_t>(left));
}

MergeRules::MergeRules(const Vocab &vocab, const Texts &merges)
    : vocab_(vocab), ranks_(merges.size()) {
    constexpr size_t ahead = 16;  // merges whose hash slots are being prefetched
    struct Waiting {
        std::string_view both;
        std::string own;  // the text of `both` where no token has it
        size_t left;
        uint64_t hash;  // hash of `both`
        int32_t id;     // the token with the text `both`; -1: not looked up yet
    };
    std::array<Waiting, ahead> waiting;
    int32_t last = -1;  // the token that a merge was last matched to
    merges_.reserve(merges.size());
    for (size_t i = 0; i < merges.size() + ahead; i++) {
        Waiting &w = waiting[i % ahead];
        if (i >= ahead) {  // of several merges of one pair the first, with the lowest rank, is kept
            if (w.id < 0 && (w.id = vocab.find(w.both, w.hash)) >= 0) last = w.id;
            push(w.both, w.left, w.id);
            const uint64_t h = hash(w.hash, w.left);
            const size_t at = probe(w.both, w.left, h);
            if (ranks_.number(at) < 0) ranks_.put(at, h, static_cast<int32_t>(i - ahead));
        }
        if (i >= merges.size()) continue;
        const std::string_view merge = merges[i];
        w.left = merge.find(' ', 1);  // the left text may start with a space but has no other
        if (w.left == merge.npos || w.left + 1 == merge.size())
            throw std::invalid_argument("[" + std::to_string(i) + "] isn't two tokens and a space");
        const auto makes = [&](int32_t id) {
            return id >= 0 && id < vocab.size() && is_merge(merge, w.left, vocab.text(id));
        };
        // In most files the tokens are in the order of the merges that make them.
        if (w.id = makes(last + 1) ? last + 1 : makes(last) ? last : -1; w.id >= 0) {
            last = w.id;
            w.both = vocab.text(w.id);
        } else {
            w.own.assign(merge, 0, w.left).append(merge, w.left + 1);
            w.both = w.own;
        }
        w.hash = tok::hash(w.both);
        ranks_.prefetch(hash(w.hash, w.left));
        if (w.id < 0) vocab.prefetch(w.hash);
    }
}

}  // namespace unladen::tok
