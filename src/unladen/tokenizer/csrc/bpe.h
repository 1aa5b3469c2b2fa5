// BPE (tokenizer.ggml.model "gpt2" and related kinds), over bytes or over characters.
#pragma once
#include <array>
#include <vector>

#include "tokenizer/csrc/encoder.h"
#include "tokenizer/csrc/merge_rules.h"
#include "tokenizer/csrc/split.h"
#include "tokenizer/csrc/words.h"

namespace unladen::tok {

struct BpeOptions {
    std::vector<Step> steps;
    bool ignore_merges;  // a word that is a token becomes that token without merging
    int32_t unk;         // the token for bytes without one; -1: such bytes are an error
    bool raw = false;    // tokens are spelled in UTF-8; byte tokens are <0x00> to <0xFF>
    bool marks = false;  // with raw: a space is U+2581
    bool whole_lines = false;  // like ignore_merges, but only for words of line feeds
};

class Bpe : public Encoder {
 public:
    Bpe(const Tokens &tokens, const Texts &merges, BpeOptions options);
    void encode(std::string_view text, bool fresh, Workspace &work,
                std::vector<int32_t> &out) const override;
    std::string piece(int32_t id) const override;
    bool looked_for(std::string_view text) const override;

 protected:
    // Appends the ids of a word that the pre-tokenizer has cut.
    void encode_word(std::string_view word, Workspace &work, std::vector<int32_t> &out) const;
    const Tokens &tokens() const { return tokens_; }

 private:
    int32_t rank(std::string_view word, const Symbol &a, const Symbol &b) const;
    void emit(std::string_view letters, std::vector<int32_t> &out) const;
    void merge(std::string_view word, Workspace &work, std::vector<int32_t> &out) const;

    const Tokens &tokens_;
    BpeOptions options_;
    MergeRules rules_;
    std::array<int32_t, 256> byte_ids_;  // -1: none
    WordEnds ends_;                      // with marks
    std::vector<int32_t> byte_pairs_;    // ranks of two bytes' letters, [256 * 256], unless raw
};

}  // namespace unladen::tok
