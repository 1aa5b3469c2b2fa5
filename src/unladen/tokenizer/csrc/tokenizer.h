// Text to ids and back: special tokens around an Encoder.
#pragma once
#include <memory>
#include <span>

#include "tokenizer/csrc/encoder.h"

namespace unladen::tok {

// The bytes [begin, end) of a text.
struct Range {
    size_t begin, end;
};

class Tokenizer {
 public:
    // Owns `tokens` and `encoder`, which may refer to `tokens`.
    Tokenizer(std::shared_ptr<const Tokens> tokens, std::unique_ptr<const Encoder> encoder);
    int32_t size() const { return tokens_->vocab->size(); }

    // `special`: control and unknown tokens are searched for, too, not only user-defined ones.
    // `fresh`: `text` begins a text. Otherwise it continues one, and no space is put before it.
    // No control or unknown token is found that overlaps one of the ranges `plain` of bytes, which
    // are in order and apart: what is there stays text.
    std::vector<int32_t> encode(std::string_view text, bool special, bool fresh,
                                std::span<const Range> plain = {}) const;

    // The bytes of a token. Control and unknown tokens have bytes only with `special`. `fresh`: the
    // token starts the text or follows a special token, so the space that encode() put before it is
    // removed.
    std::string piece(int32_t id, bool special, bool fresh) const;

    // Whether text after this token is fresh.
    bool starts_fresh(int32_t id) const { return fresh_after_[id]; }

    std::string decode(std::span<const int64_t> ids, bool special, bool fresh) const;

 private:
    SpecialTokens::Match next(std::string_view text, size_t from, bool special,
                              std::span<const Range> plain) const;

    std::shared_ptr<const Tokens> tokens_;
    std::unique_ptr<const Encoder> encoder_;
    SpecialTokens specials_;
    std::vector<bool> fresh_after_;
    std::unique_ptr<Workspaces> workspaces_ = std::make_unique<Workspaces>();
};

}  // namespace unladen::tok
