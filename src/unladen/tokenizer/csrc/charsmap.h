// SentencePiece's normalization table (tokenizer.ggml.precompiled_charsmap).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace unladen::tok {

// The table is a little-endian size, a double-array trie of that many bytes, and the texts that its
// values point to, each followed by a NUL. A unit of the trie holds the offset to its children
// (bits 10-30, shifted left by eight if bit 9 is set), whether its child by 0 is a value (bit 8)
// and its label (bits 0-7). A unit with bit 31 is a value (S. Yata's darts-clone; SentencePiece's
// normalizer.cc).
class Charsmap {
 public:
    // Throws std::invalid_argument unless every offset and value stays inside `bytes`. Empty bytes
    // mean no table.
    explicit Charsmap(std::string_view bytes);
    struct Match {
        size_t size = 0;  // bytes of the longest key that starts the text
        std::string_view text;
    };
    Match find(std::string_view text) const;

 private:
    static uint32_t offset(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }
    static constexpr uint32_t kValue = 1u << 31, kHasValue = 1u << 8;

    std::vector<uint32_t> units_;
    std::string texts_;
};

}  // namespace unladen::tok
