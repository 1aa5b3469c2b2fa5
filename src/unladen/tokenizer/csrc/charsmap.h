// SentencePiece's normalization table (tokenizer.ggml.precompiled_charsmap).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace unladen::tok {

// A little-endian size, a double-array trie of so many bytes, and the texts that its values point
// to, each with a NUL behind it. A unit of the trie is an offset to its children (bits 10-30, with
// bit 9 eight bits further left), whether a value is the child by 0 (bit 8), and its label (bits
// 0-7); or with bit 31 a value (S. Yata's darts-clone; SentencePiece's normalizer.cc).
class Charsmap {
 public:
    // Throws std::invalid_argument unless every offset and value stays inside. Empty: no table.
    explicit Charsmap(std::string_view bytes);
    struct Match {
        size_t size = 0;  // bytes of the longest key that the text begins with
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
