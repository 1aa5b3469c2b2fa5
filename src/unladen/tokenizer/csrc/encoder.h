// The interface of the encoders, one per kind of tokenizer: raw text to ids.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/csrc/vocab.h"
#include "tokenizer/csrc/workspace.h"

namespace unladen::tok {

class Encoder {
 public:
    virtual ~Encoder() = default;
    // Appends the ids of `text`, which contains no special tokens and isn't empty. `fresh`: the
    // text has nothing or a special token before it. Throws std::invalid_argument where the
    // vocabulary has no token for a part of it. Several threads may call this at once, each with
    // its own workspace.
    virtual void encode(std::string_view text, bool fresh, Workspace &work,
                        std::vector<int32_t> &out) const = 0;
    // The bytes that the token `id` stands for, which is neither a control nor an unknown token.
    virtual std::string piece(int32_t id) const = 0;
    // Whether a space is put before fresh text.
    virtual bool space_prefix() const { return false; }
    // Whether this user-defined token is searched for in raw text before the text is encoded.
    virtual bool looked_for(std::string_view) const { return true; }
};

}  // namespace unladen::tok
