// Pre-tokenizers: the regular expressions that cut text into words, written out by hand.
//
// A pre-tokenizer is a list of steps. Each step cuts every piece it is given into the matches of
// its expression and the gaps between them; the next step cuts these. Which steps belong to which
// tokenizer.ggml.pre is said in pretokenize.py.
#pragma once
#include <span>
#include <string_view>

#include "tokenizer/csrc/unicode.h"

namespace unladen::tok {

// Returns the end of the match that starts at p, or p where nothing matches. p < end; `end` is the
// end of the piece, which look-ahead doesn't pass.
using Step = const char *(*)(const char *p, const char *end);

// The step of that name; nullptr if there is none.
Step find_step(std::string_view name);

template <class Sink>
void split(std::span<const Step> steps, std::string_view text, Sink &&sink) {
    if (steps.empty()) {
        sink(text);
        return;
    }
    const auto rest = steps.subspan(1);
    const char *p = text.data(), *end = p + text.size(), *gap = p;
    const auto cut = [&](const char *from, const char *to) {
        if (from < to) split(rest, std::string_view(from, to - from), sink);
    };
    while (p < end) {
        const char *stop = steps[0](p, end);
        if (stop == p) {
            p += char_at(p, end).size;
            continue;
        }
        cut(gap, p);
        cut(p, stop);
        gap = p = stop;
    }
    cut(gap, end);
}

}  // namespace unladen::tok
