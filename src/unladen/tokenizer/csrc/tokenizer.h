// Text to ids and back: special tokens around an Encoder.
#pragma once
#include <memory>
#include <span>

#include "tokenizer/csrc/encoder.h"

namespace unladen::tok {

class Tokenizer {
 public:
    // Takes `tokens` over, then `encoder`, which may refer to them.
    Tokenizer(std::shared_ptr<const Tokens> tokens, std::unique_ptr<const Encoder> encoder);
    int32_t size() const { return tokens_->vocab->size(); }

    // `special`: control and unknown tokens are looked for too, not only user-defined ones.
    // `fresh`: `text` begins a text; else it continues one, and no space is put before it.
    std::vector<int32_t> encode(std::string_view text, bool special, bool fresh) const;

    // The bytes of a token. `special`: those of control and unknown tokens too, which are none
    // otherwise. `fresh`: it starts the text or follows a special token, so that the space which
    // encode() put before it is taken away.
    std::string piece(int32_t id, bool special, bool fresh) const;

    // Whether text after this token is fresh.
    bool starts_fresh(int32_t id) const { return fresh_after_[id]; }

    std::string decode(std::span<const int64_t> ids, bool special, bool fresh) const;

 private:
    std::shared_ptr<const Tokens> tokens_;
    std::unique_ptr<const Encoder> encoder_;
    SpecialTokens specials_;
    std::vector<bool> fresh_after_;
    std::unique_ptr<Workspaces> workspaces_ = std::make_unique<Workspaces>();
};

}  // namespace unladen::tok
