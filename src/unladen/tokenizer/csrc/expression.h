// Regular expressions of pre-tokenizers, matched by backtracking.
//
// The syntax is the part of Oniguruma's that published tokenizers use: alternatives, groups without
// captures, (?i:...), look-ahead, greedy ? * + {n} {n,} {n,m}, classes with ranges and &&[^...],
// \s \S \d, \p{..} for general categories, \x{hex}. Case folding covers ASCII letters and U+017F,
// the long s.
#pragma once
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/csrc/unicode.h"

namespace unladen::tok {

class Expression {
 public:
    // Throws std::invalid_argument for what isn't in the syntax.
    explicit Expression(std::string_view pattern);
    // The end of the match that starts at p < end; p where nothing matches.
    const char *match(const char *p, const char *end) const;

 private:
    friend class ExpressionParser;
    using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;  // first and last code, sorted

    struct Set {
        uint32_t classes = 0;
        Ranges ranges;
        bool negated = false;
        uint32_t without_classes = 0;
        Ranges without;
        bool ascii[128] = {};

        bool has(const Char &c) const { return c.code < 128 ? ascii[c.code] : slow(c); }
        bool slow(const Char &c) const;
        void finish();  // call it once everything is entered
    };
    // kSet: matches `min` to `max` characters of the set `set`. kTry: continues with the next
    // instruction, and at `to` if that fails. kAhead, kNotAhead: run the instructions up to kMatch
    // as a look-ahead, then continue at `to`. Jumps are relative.
    enum class Op : uint8_t { kSet, kTry, kJump, kAhead, kNotAhead, kMatch };
    struct Node {
        Op op;
        int32_t set = -1;
        uint32_t min = 1, max = 1;
        int32_t to = 0;
    };
    struct Frame {
        int32_t pc;
        const char *p, *least;  // tries every start of a character from p back to `least`
    };

    const char *run(int32_t pc, const char *p, const char *end, std::vector<Frame> &frames) const;

    std::vector<Set> sets_;
    std::vector<Node> nodes_;
};

}  // namespace unladen::tok
