// PLaMo 2's tokenizer (tokenizer.ggml.model "plamo2"): finds the cheapest tokens of a text.
#pragma once
#include <array>
#include <vector>

#include "tokenizer/csrc/encoder.h"

namespace unladen::tok {

class Plamo2 final : public Encoder {
 public:
    // `scores` has one score per token. Scores are compared in steps of 1e-4. Throws
    // std::invalid_argument where a byte has no token.
    Plamo2(const Tokens &tokens, const std::vector<float> &scores);
    void encode(std::string_view text, bool fresh, Workspace &work,
                std::vector<int32_t> &out) const override;
    std::string piece(int32_t id) const override;

 private:
    const Tokens &tokens_;
    std::vector<double> costs_;  // whole numbers
    Trie trie_;
    std::array<int32_t, 256> byte_ids_;
};

}  // namespace unladen::tok
