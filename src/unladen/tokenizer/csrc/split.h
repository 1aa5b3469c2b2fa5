// Pre-tokenizers: the regular expressions that cut text into words.
//
// A pre-tokenizer is a list of steps. A step is an expression, or the name of one that is written
// by hand here because it is common or slow in general. Each step cuts every piece into the matches
// of its expression and the gaps between them; the next step cuts these pieces. pretokenize.py says
// which steps belong to which tokenizer.ggml.pre.
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "tokenizer/csrc/expression.h"
#include "tokenizer/csrc/unicode.h"

namespace unladen::tok {

// One step of a pre-tokenizer.
class Step {
 public:
    // A step by its name or its expression; throws std::invalid_argument.
    explicit Step(std::string_view text);
    // The end of the match that starts at p, or p where nothing matches. The piece is begin to end,
    // with begin <= p < end; look-ahead and look-behind don't pass its ends.
    const char *operator()(const char *begin, const char *p, const char *end) const {
        return named_ ? named_(begin, p, end) : expression_->match(p, end);
    }

 private:
    const char *(*named_)(const char *begin, const char *p, const char *end) = nullptr;
    std::shared_ptr<const Expression> expression_;
};

template <class Sink>
void split(std::span<const Step> steps, std::string_view text, Sink &&sink) {
    if (steps.empty()) {
        sink(text);
        return;
    }
    const auto rest = steps.subspan(1);
    const char *const begin = text.data(), *const end = begin + text.size();
    const char *p = begin, *gap = begin;
    const auto cut = [&](const char *from, const char *to) {
        if (from < to) split(rest, std::string_view(from, to - from), sink);
    };
    while (p < end) {
        const char *stop = steps[0](begin, p, end);
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
