// WordPiece as in BERT (tokenizer.ggml.model "bert"): takes the longest token at each position of a
// word.
#pragma once
#include "tokenizer/csrc/encoder.h"

namespace unladen::tok {

struct WpmOptions {
    bool lowercase;
    bool strip_accents;
    int32_t unk;  // the token for a word that tokens can't spell; -1: such a word is an error
};

class Wpm final : public Encoder {
 public:
    Wpm(const Tokens &tokens, WpmOptions options);
    void encode(std::string_view text, bool fresh, Workspace &work,
                std::vector<int32_t> &out) const override;
    std::string piece(int32_t id) const override;
    bool space_prefix() const override { return true; }

 private:
    class Words;
    void encode_word(std::string_view word, Workspace &work, std::vector<int32_t> &out) const;
    void unknown(std::string_view word, std::vector<int32_t> &out) const;

    const Tokens &tokens_;
    WpmOptions options_;
    Trie trie_;  // texts of tokens; those that begin a word begin with a mark
};

}  // namespace unladen::tok
