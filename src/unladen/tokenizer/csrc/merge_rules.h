// The merges of BPE, found by the two texts that they join.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/csrc/strings.h"
#include "tokenizer/csrc/vocab.h"

namespace unladen::tok {

// A merge is stored as the joined text and the position where it is cut in two. The joined text is
// nearly always a token's, so only the token's id is stored; other texts are stored here.
class MergeRules {
 public:
    // Throws std::invalid_argument for a merge that isn't two texts with a space between. `vocab`
    // must outlive the object.
    MergeRules(const Vocab &vocab, const Texts &merges);
    int32_t size() const { return static_cast<int32_t>(merges_.size()); }
    // The joined text of a merge.
    std::string_view merged(int32_t rank) const {
        const uint32_t merge = merges_[rank];
        return merge & kOther ? others_[merge & ~kOther] : vocab_.text(merge >> kCutBits);
    }
    // The number of its bytes that belong to the left text.
    size_t cut(int32_t rank) const {
        const uint32_t merge = merges_[rank];
        return merge & kOther ? cuts_[merge & ~kOther] : merge & ((1 << kCutBits) - 1);
    }
    // The rank of merging the first `left` bytes of `both` with the rest; -1: they don't merge.
    int32_t rank(std::string_view both, size_t left) const {
        return ranks_.number(probe(both, left, hash(tok::hash(both), left)));
    }

 private:
    static constexpr uint32_t kOther = uint32_t{1} << 31;
    static constexpr int kCutBits = 8;

    static uint64_t hash(uint64_t both, size_t left) { return both + left * 0x9E3779B97F4A7C15u; }
    size_t probe(std::string_view both, size_t left, uint64_t h) const;
    void push(std::string_view both, size_t left, int32_t id);

    const Vocab &vocab_;
    std::vector<uint32_t> merges_;  // a token and its cut, or kOther and an index into others_
    Strings others_;
    std::vector<uint32_t> cuts_;  // cuts of others_
    HashedNumbers ranks_;
};

}  // namespace unladen::tok
