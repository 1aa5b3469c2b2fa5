// The vocabulary of a file: texts, types, and the tokens that are searched for in raw text.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/csrc/strings.h"
#include "tokenizer/csrc/trie.h"

namespace unladen::tok {

// tokenizer.ggml.token_type
enum TokenType : uint8_t {
    kUndefined = 0,
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6,
};

// White space around a token that is dropped when the token is found in text.
enum Strip : uint8_t { kStripLeft = 1, kStripRight = 2 };

// The texts of tokenizer.ggml.tokens, by id and by text.
class Vocab {
 public:
    explicit Vocab(const Texts &texts);
    int32_t size() const { return static_cast<int32_t>(texts_.size()); }
    std::string_view text(int32_t id) const { return texts_[id]; }
    int32_t find(std::string_view text) const { return find(text, hash(text)); }  // -1: absent
    int32_t find(std::string_view text, uint64_t h) const { return index_.find(texts_, text, h); }
    void prefetch(uint64_t h) const { index_.prefetch(h); }

 private:
    Strings texts_;
    StringIndex index_;
};

// U+2581, which stands for a space in SentencePiece's texts.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// Writes `text` to `out` with marks for spaces; the other function writes spaces for marks.
void with_marks(std::string_view text, std::string &out);
std::string without_marks(std::string_view text);

// The text of the token for a byte, <0x00> to <0xFF>. The other function returns the byte of such a
// text, or -1.
std::string byte_text(int byte);
int byte_of(std::string_view text);

// A file's tokens.
struct Tokens {
    std::shared_ptr<const Vocab> vocab;
    std::vector<uint8_t> types;   // TokenType, one per token
    std::vector<uint8_t> strips;  // Strip, one per token

    // The token that plain text may become. Control tokens are found by id or by SpecialTokens, but
    // never by merging, so plain text can't forge one.
    int32_t find(std::string_view text) const {
        const int32_t id = vocab->find(text);
        return id >= 0 && types[id] != kControl ? id : -1;
    }
};

// Finds control, unknown and user-defined tokens in raw text: leftmost, then longest.
class SpecialTokens {
 public:
    void add(std::string_view text, int32_t id, bool always);

    struct Match {
        size_t begin, end;
        int32_t id;  // -1: none
    };
    // The first match in `text` from `from` on; only tokens added with `always` unless `all`.
    Match find(std::string_view text, size_t from, bool all) const;

 private:
    Trie trie_;  // values are 2 id + always
    bool first_[256] = {};
};

}  // namespace unladen::tok
