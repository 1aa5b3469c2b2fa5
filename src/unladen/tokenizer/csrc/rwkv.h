// RWKV's tokenizer (tokenizer.ggml.model "rwkv"): the longest token at each place, over bytes.
#pragma once
#include "tokenizer/csrc/encoder.h"

namespace unladen::tok {

class Rwkv final : public Encoder {
 public:
    // `unk` is the token for bytes without one; -1: such bytes are an error. Throws
    // std::invalid_argument for a token that isn't a byte literal.
    Rwkv(const Tokens &tokens, int32_t unk);
    void encode(std::string_view text, bool fresh, Workspace &work,
                std::vector<int32_t> &out) const override;
    std::string piece(int32_t id) const override;

 private:
    const Tokens &tokens_;
    int32_t unk_;
    Trie trie_;
};

}  // namespace unladen::tok
