// Cuts text whose spaces are marks into words.
#pragma once
#include <algorithm>
#include <string_view>

#include "tokenizer/csrc/vocab.h"

namespace unladen::tok {

// Cuts text where no token can cross the cut, so that each word can be encoded by itself: before
// the first mark after another character, unless some token has a mark after that character.
class WordEnds {
 public:
    // Registers a text that may become a token.
    void add(std::string_view text) {
        for (size_t at = 1; (at = text.find(kSpaceMark, at)) != text.npos; at += kSpaceMark.size())
            if (!text.substr(0, at).ends_with(kSpaceMark))
                joined_[static_cast<uint8_t>(text[at - 1])] = true;
    }
    // The end of the word that begins at `from`.
    size_t end(std::string_view text, size_t from) const {
        for (;;) {
            while (text.substr(from).starts_with(kSpaceMark)) from += kSpaceMark.size();
            from = std::min(text.find(kSpaceMark, from), text.size());
            if (from == text.size() || !joined_[static_cast<uint8_t>(text[from - 1])]) return from;
        }
    }
    template <class Sink>
    void each(std::string_view text, Sink &&sink) const {
        for (size_t from = 0; from < text.size();) {
            const size_t stop = end(text, from);
            sink(text.substr(from, stop - from));
            from = stop;
        }
    }

 private:
    bool joined_[256] = {};  // indexed by the last byte of a character
};

}  // namespace unladen::tok
