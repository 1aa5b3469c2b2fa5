#include "tokenizer/csrc/merge_rules.h"

#include <array>
#include <bit>
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
    const size_t mask = slots_.size() - 1;
    size_t at = h & mask;
    while (slots_[at].rank >= 0 && (slots_[at].hash != static_cast<uint32_t>(h >> 32) ||
                                    !is(slots_[at].rank, both, left)))
        at = (at + 1) & mask;
    return at;
}

MergeRules::MergeRules(Strings merges)
    : merges_(std::move(merges)), slots_(std::bit_ceil(merges_.size() + merges_.size() / 2 + 2)) {
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
            Slot &slot = slots_[probe(w.both, w.left, w.hash)];
            if (slot.rank < 0)
                slot = {static_cast<uint32_t>(w.hash >> 32), static_cast<int32_t>(i - ahead)};
        }
        if (i >= merges_.size()) continue;
        const std::string_view merge = merges_[i];
        w.left = cut(merge);
        if (w.left == merge.npos || w.left + 1 == merge.size())
            throw std::invalid_argument("[" + std::to_string(i) + "] isn't two tokens and a space");
        w.both.assign(merge, 0, w.left).append(merge, w.left + 1);
        w.hash = hash(w.both, w.left);
        __builtin_prefetch(&slots_[w.hash & (slots_.size() - 1)], 1);
    }
}

}  // namespace unladen::tok
