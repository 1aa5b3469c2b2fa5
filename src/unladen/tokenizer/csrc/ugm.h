// SentencePiece's unigram model (tokenizer.ggml.model "t5"): finds the likeliest tokens of a text.
#pragma once
#include <array>
#include <vector>

#include "tokenizer/csrc/charsmap.h"
#include "tokenizer/csrc/encoder.h"
#include "tokenizer/csrc/words.h"

namespace unladen::tok {

struct UgmOptions {
    std::vector<float> scores;  // one per token, logarithms of probabilities
    bool space_prefix;
    bool merge_spaces;  // a run of spaces becomes one space; spaces at both ends are removed
    int32_t unk;        // the token for a run of characters without one; -1: it is an error
};

class Ugm final : public Encoder {
 public:
    Ugm(const Tokens &tokens, Charsmap charsmap, UgmOptions options);
    void encode(std::string_view text, bool fresh, Workspace &work,
                std::vector<int32_t> &out) const override;
    std::string piece(int32_t id) const override;
    bool space_prefix() const override { return options_.space_prefix; }
    bool looked_for(std::string_view text) const override;

 private:
    void normalize(std::string_view text, bool fresh, std::string &out) const;
    void encode_word(std::string_view word, Workspace &work, size_t n_before,
                     std::vector<int32_t> &out) const;

    const Tokens &tokens_;
    Charsmap charsmap_;
    UgmOptions options_;
    Trie trie_;
    WordEnds ends_;
    double unk_score_ = 0;
    std::array<int32_t, 256> byte_ids_;
    bool bytes_ = true;  // each byte has a token, which spell characters without a token
};

}  // namespace unladen::tok
