#include "tokenizer/csrc/split.h"

namespace unladen::tok {
namespace {

bool newline(char c) { return c == '\r' || c == '\n'; }

// Passes over characters that have one of `classes`.
const char *run(const char *p, const char *end, uint32_t classes) {
    while (p < end) {
        const Char c = char_at(p, end);
        if (!(c.classes & classes)) break;
        p += c.size;
    }
    return p;
}

// Passes over characters that have none of `classes`.
const char *run_without(const char *p, const char *end, uint32_t classes) {
    while (p < end) {
        const Char c = char_at(p, end);
        if (c.classes & classes) break;
        p += c.size;
    }
    return p;
}

// 's|'t|'re|'ve|'m|'ll|'d. With `any_case` U+017F, the long s, counts as s.
const char *contraction(const char *p, const char *end, bool any_case) {
    if (*p != '\'' || end - p < 2) return p;
    const auto lower = [any_case](char c) {
        return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    };
    const char a = lower(p[1]);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return p + 2;
    if (end - p < 3) return p;
    const char b = lower(p[2]);
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return p + 3;
    if (any_case && a == '\xC5' && b == '\xBF') return p + 3;
    return p;
}

// \s+(?!\S)|\s+: white space up to the piece's end, else all white space but its last character,
// which the next word includes. A single white space is matched here.
const char *spaces(const char *p, const char *end) {
    const char *stop = p, *last = p;
    while (stop < end) {
        const Char c = char_at(stop, end);
        if (!(c.classes & kSpace)) break;
        last = stop;
        stop += c.size;
    }
    return stop == end || last == p ? stop : last;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
const char *gpt2(const char *, const char *p, const char *end) {
    if (const char *stop = contraction(p, end, false); stop != p) return stop;
    const char *body = *p == ' ' ? p + 1 : p;
    if (body < end) {
        const uint32_t classes = char_at(body, end).classes;
        if (classes & kLetter) return run(body, end, kLetter);
        if (classes & kNumber) return run(body, end, kNumber);
        if (!(classes & kSpace)) return run_without(body, end, kSpace | kLetter | kNumber);
    }
    return spaces(p, end);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,n}| ?[^\s\p{L}\p{N}]+[\r\n]*
// |\s*[\r\n]+|\s+(?!\S)|\s+
const char *cl100k(const char *p, const char *end, int n_digits) {
    if (const char *stop = contraction(p, end, true); stop != p) return stop;
    const Char c = char_at(p, end);
    if (c.classes & kLetter) return run(p, end, kLetter);
    if (c.classes & kNumber) {
        while (n_digits-- > 0 && p < end) {
            const Char digit = char_at(p, end);
            if (!(digit.classes & kNumber)) break;
            p += digit.size;
        }
        return p;
    }
    const char *next = p + c.size;
    if (!newline(*p) && next < end && char_at(next, end).classes & kLetter)
        return run(next, end, kLetter);
    const char *body = *p == ' ' ? next : p;
    const char *stop = run_without(body, end, kSpace | kLetter | kNumber);
    if (stop != body) {
        while (stop < end && newline(*stop)) ++stop;
        return stop;
    }
    const char *white = run(p, end, kSpace);
    while (white > p && !newline(white[-1])) --white;  // \s* gives back until [\r\n]+ fits
    return white > p ? white : spaces(p, end);
}

const char *llama3(const char *, const char *p, const char *end) { return cl100k(p, end, 3); }
const char *qwen2(const char *, const char *p, const char *end) { return cl100k(p, end, 1); }

// [\p{P}$+<=>^~|]+
const char *punctuation(const char *, const char *p, const char *end) {
    while (p < end) {
        const Char c = char_at(p, end);
        const bool listed = std::string_view("$+<=>^~|").find(*p) != std::string_view::npos;
        if (!listed && !(c.classes & kPunctuation)) break;
        p += c.size;
    }
    return p;
}

// \p{N}+
const char *numbers(const char *, const char *p, const char *end) { return run(p, end, kNumber); }

// \p{N}
const char *number(const char *, const char *p, const char *end) {
    const Char c = char_at(p, end);
    return c.classes & kNumber ? p + c.size : p;
}

// [0-9][0-9][0-9]
const char *digits3(const char *, const char *p, const char *end) {
    if (end - p < 3) return p;
    for (int i = 0; i < 3; ++i)
        if (p[i] < '0' || p[i] > '9') return p;
    return p + 3;
}

// The character that ends at p > begin.
Char before(const char *begin, const char *p) {
    const char *end = p;
    do --p;
    while (p > begin && (*p & 0xC0) == 0x80);
    return char_at(p, end);
}

// Whether p > begin lies inside a run of `classes`, which was looked at already.
bool inside(const char *begin, const char *p, uint32_t classes) {
    return p > begin && before(begin, p).classes & classes;
}

// Groups of three from the right of each run of `classes`: \d{1,3}(?=(\d{3})*(?!\d))
const char *thirds(const char *begin, const char *p, const char *end, uint32_t classes) {
    uint32_t n = 3;
    if (!inside(begin, p, classes)) {
        uint32_t n_run = 0;
        for (const char *q = p; q < end; ++n_run) {
            const Char c = char_at(q, end);
            if (!(c.classes & classes)) break;
            q += c.size;
        }
        n = n_run % 3 || n_run == 0 ? n_run % 3 : 3;
    }
    while (n-- && p < end) {
        const Char c = char_at(p, end);
        if (!(c.classes & classes)) break;
        p += c.size;
    }
    return p;
}

const char *number_thirds(const char *begin, const char *p, const char *end) {
    return thirds(begin, p, end, kNumber);
}

// Cuts wherever (?=(\d{3})+(?!\d)) holds: three digits or a multiple of it follow.
const char *before_thirds(const char *begin, const char *p, const char *end) {
    const char *q = p;
    if (inside(begin, q, kDigit) && (q = thirds(begin, p, end, kDigit)) < end &&
        char_at(q, end).classes & kDigit)
        return q;
    while (q < end) {
        while (q < end && !(char_at(q, end).classes & kDigit)) q += char_at(q, end).size;
        if (q == end) break;
        const char *first = thirds(begin, q, end, kDigit), *stop = run(q, end, kDigit);
        uint32_t n = 0;
        for (const char *at = q; at < first; ++n) at += char_at(at, end).size;
        if (n == 3 && q > p) return q;
        if (first < stop) return first;
        q = stop;
    }
    return end;
}

// \d+(?!\w), whose matches apart_thirds cuts
const char *digits_apart(const char *begin, const char *p, const char *end) {
    if (inside(begin, p, kDigit)) return p;
    const char *stop = run(p, end, kDigit);
    return stop < end && char_at(stop, end).classes & kWord ? p : stop;
}

// Runs after digits_apart, which leaves no digits at the end of other pieces. Together they are
// \d{1,3}(?=(?:\d{3})*\b)
const char *apart_thirds(const char *begin, const char *p, const char *end) {
    return before(begin, end).classes & kDigit ? thirds(begin, p, end, kDigit) : p;
}

// \s+$
const char *trailing(const char *begin, const char *p, const char *end) {
    if (inside(begin, p, kSpace)) return p;
    const char *stop = run(p, end, kSpace);
    return stop == end ? stop : p;
}

constexpr struct {
    std::string_view name;
    const char *(*step)(const char *, const char *, const char *);
} kSteps[] = {
    {"gpt2", gpt2},
    {"llama3", llama3},
    {"qwen2", qwen2},
    {"punctuation", punctuation},
    {"numbers", numbers},
    {"number", number},
    {"digits3", digits3},
    {"number_thirds", number_thirds},
    {"before_thirds", before_thirds},
    {"digits_apart", digits_apart},
    {"apart_thirds", apart_thirds},
    {"trailing", trailing},
};

}  // namespace

Step::Step(std::string_view text) {
    for (const auto &known : kSteps)
        if (known.name == text) named_ = known.step;
    if (!named_) expression_ = std::make_shared<const Expression>(text);
}

}  // namespace unladen::tok
