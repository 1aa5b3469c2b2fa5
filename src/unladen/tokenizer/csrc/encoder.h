// What turns raw text into ids, one per kind of tokenizer.
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
    // Appends the ids of `text`, which holds no special tokens and isn't empty. `fresh`: nothing
    // or a special token stands before it. Throws std::invalid_argument where the vocabulary has
    // no token for a part of it. Called from several threads at once, each with a workspace.
    virtual void encode(std::string_view text, bool fresh, Workspace &work,
                        std::vector<int32_t> &out) const = 0;
    // The bytes that the token `id`, neither control nor unknown, stands for.
    virtual std::string piece(int32_t id) const = 0;
    // Whether a space is put before fresh text.
    virtual bool space_prefix() const { return false; }
    // Whether a user-defined token is looked for in raw text, before all else.
    virtual bool looked_for(std::string_view) const { return true; }
};

}  // namespace unladen::tok
