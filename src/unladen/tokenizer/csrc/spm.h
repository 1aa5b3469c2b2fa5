// SentencePiece BPE (tokenizer.ggml.model "llama"): merges by score and spells characters without
// a token in byte tokens.
#pragma once
#include <array>
#include <vector>

#include "tokenizer/csrc/encoder.h"
#include "tokenizer/csrc/words.h"

namespace unladen::tok {

struct SpmOptions {
    std::vector<float> scores;  // one per token
    bool space_prefix;
    int32_t unk;  // the token for a run of characters without one; -1: such a run is an error
};

class Spm final : public Encoder {
 public:
    Spm(const Tokens &tokens, SpmOptions options);
    void encode(std::string_view text, bool fresh, Workspace &work,
                std::vector<int32_t> &out) const override;
    std::string piece(int32_t id) const override;
    bool space_prefix() const override { return options_.space_prefix; }
    bool looked_for(std::string_view text) const override;

 private:
    int32_t find(std::string_view text) const;
    void encode_word(std::string_view word, Merger &merger, std::vector<int32_t> &out) const;
    void emit(std::string_view character, std::vector<int32_t> &out) const;

    const Tokens &tokens_;
    SpmOptions options_;
    size_t longest_ = 0;       // bytes of the longest token
    WordEnds ends_;
    std::array<int32_t, 256> byte_ids_;
};

}  // namespace unladen::tok
