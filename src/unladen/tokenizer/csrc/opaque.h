// A vocabulary whose text can't be encoded (tokenizer.ggml.model "no_vocab").
#pragma once
#include <stdexcept>

#include "tokenizer/csrc/encoder.h"

namespace unladen::tok {

class Opaque final : public Encoder {
 public:
    explicit Opaque(const Tokens &tokens) : tokens_(tokens) {}
    void encode(std::string_view, bool, Workspace &, std::vector<int32_t> &) const override {
        throw std::invalid_argument("this vocabulary can't encode text");
    }
    std::string piece(int32_t id) const override { return std::string(tokens_.vocab->text(id)); }

 private:
    const Tokens &tokens_;
};

}  // namespace unladen::tok
