// The merges of BPE, by what they merge.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "tokenizer/csrc/strings.h"

namespace unladen::tok {

// Merges are kept as the texts that they are in the file, "left right", and found by the text of
// both and where it is cut. So nothing has to be known of tokens when a file is loaded, and merges
// through texts without a token need no care.
class MergeRules {
 public:
    // Throws std::invalid_argument for what isn't two texts and a space.
    explicit MergeRules(Strings merges);
    int32_t size() const { return static_cast<int32_t>(merges_.size()); }
    std::string_view text(int32_t rank) const { return merges_[rank]; }
    // What the two of a merge become.
    std::string merged(int32_t rank) const;
    // The rank of merging the first `left` bytes of `both` with the rest; -1: they don't merge.
    int32_t rank(std::string_view both, size_t left) const {
        return ranks_.number(probe(both, left, hash(both, left)));
    }

 private:
    // Where the left text ends; it may start with a space, not hold one.
    static size_t cut(std::string_view merge) { return merge.find(' ', 1); }
    static uint64_t hash(std::string_view both, size_t left) {
        return tok::hash(both) + left * 0x9E3779B97F4A7C15u;
    }
    size_t probe(std::string_view both, size_t left, uint64_t h) const;
    bool is(int32_t rank, std::string_view both, size_t left) const;

    Strings merges_;
    HashedNumbers ranks_;
};

}  // namespace unladen::tok
