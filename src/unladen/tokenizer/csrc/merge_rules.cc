#include "tokenizer/csrc/merge_rules.h"

#include <array>
#include <stdexcept>
#include <utility>

namespace unladen::tok {

bool MergeRules::is(int32_t rank, std::string_view both, size_t left) const {
    const std::string_view merge = merges_[rank];
    return merge.size() == both.size() + 1 && merge[left] == ' ' &&
           merge.substr(0, left) == both.substr(0, left) &&
           merge.substr(left + 1) == both.substr(left);
}

std::string MergeRules::merged(int32_t rank) const {
    return std::string(merges_[rank]).erase(cut(merges_[rank]), 1);
}

size_t MergeRules::probe(std::string_view both, size_t left, uint64_t h) const {
    return ranks_.probe(h, [&](int32_t rank) { return is(rank, both, left); });
}

MergeRules::MergeRules(Strings merges) : merges_(std::move(merges)), ranks_(merges_.size()) {
    constexpr size_t ahead = 16;  // merges whose slots are on their way from memory
    struct Waiting {
        std::string both;
        size_t left;
        uint64_t hash;
    };
    std::array<Waiting, ahead> waiting;
    for (size_t i = 0; i < merges_.size() + ahead; i++) {
        Waiting &w = waiting[i % ahead];
        if (i >= ahead) {  // a pair's first merge, of lowest rank, counts
            const size_t at = probe(w.both, w.left, w.hash);
            if (ranks_.number(at) < 0) ranks_.put(at, w.hash, static_cast<int32_t>(i - ahead));
        }
        if (i >= merges_.size()) continue;
        const std::string_view merge = merges_[i];
        w.left = cut(merge);
        if (w.left == merge.npos || w.left + 1 == merge.size())
            throw std::invalid_argument("[" + std::to_string(i) + "] isn't two tokens and a space");
        w.both.assign(merge, 0, w.left).append(merge, w.left + 1);
        w.hash = hash(w.both, w.left);
        ranks_.prefetch(w.hash);
    }
}

}  // namespace unladen::tok
