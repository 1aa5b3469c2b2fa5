// Kinds of tokenizer that change or cut text in their own way before BPE.
#pragma once
#include "tokenizer/csrc/bpe.h"

namespace unladen::tok {

// "hybriddna": between <dna> and </dna> every six bases are one token. Its text in the file ends in
// U+E000, which distinguishes it from the same letters elsewhere.
class HybridDna final : public Bpe {
 public:
    HybridDna(const Tokens &tokens, const Texts &merges, BpeOptions options);
    void encode(std::string_view text, bool fresh, Workspace &work,
                std::vector<int32_t> &out) const override;
    std::string piece(int32_t id) const override;
    bool looked_for(std::string_view text) const override;

 private:
    void encode_bases(std::string_view bases, std::vector<int32_t> &out) const;

    int32_t begin_, end_, unknown_;  // -1: there is no such token, so all text is BPE
};

// "whitespace": spaces separate words and belong to no token.
class Whitespace final : public Bpe {
 public:
    Whitespace(const Tokens &tokens, const Texts &merges, BpeOptions options, bool lowercase)
        : Bpe(tokens, merges, std::move(options)), lowercase_(lowercase) {}
    void encode(std::string_view text, bool fresh, Workspace &work,
                std::vector<int32_t> &out) const override;

 private:
    bool lowercase_;
};

}  // namespace unladen::tok
