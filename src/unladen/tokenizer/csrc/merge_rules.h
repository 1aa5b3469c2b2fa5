// The merges of BPE, by what they merge.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/csrc/strings.h"
#include "tokenizer/csrc/vocab.h"

namespace unladen::tok {

// A merge is known by the text of both parts and where that is cut. The text is a token's, nearly
// always, and stands there; others, which need no token, are kept here.
class MergeRules {
 public:
    // Throws std::invalid_argument for what isn't two texts and a space. `vocab` must stay.
    MergeRules(const Vocab &vocab, const Texts &merges);
    int32_t size() const { return static_cast<int32_t>(merges_.size()); }
    // What the two of a merge become.
    std::string_view merged(int32_t rank) const {
        const uint32_t merge = merges_[rank];
        return merge & kOther ? others_[merge & ~kOther] : vocab_.text(merge >> kCutBits);
    }
    // How many bytes of that the left one has.
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
    std::vector<uint32_t> merges_;  // a token and where it is cut, or kOther and a number below
    Strings others_;
    std::vector<uint32_t> cuts_;  // of others
    HashedNumbers ranks_;
};

}  // namespace unladen::tok
