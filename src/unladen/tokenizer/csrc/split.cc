#include "tokenizer/csrc/split.h"

namespace unladen::tok {
namespace {

bool newline(char c) { return c == '\r' || c == '\n'; }

// Passes over characters that have one of `classes`.
const char *run(const char *p, const char *end, uint8_t classes) {
    while (p < end) {
        const Char c = char_at(p, end);
        if (!(c.classes & classes)) break;
        p += c.size;
    }
    return p;
}

// Passes over characters that have none of `classes`.
const char *run_without(const char *p, const char *end, uint8_t classes) {
    while (p < end) {
        const Char c = char_at(p, end);
        if (c.classes & classes) break;
        p += c.size;
    }
    return p;
}

// 's|'t|'re|'ve|'m|'ll|'d. In any case also with U+017F, the long s, which folds to s.
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

// \s+(?!\S)|\s+: white space up to the piece's end, or all but the last character of it, which
// the next word takes along; a single one is taken here.
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
const char *gpt2(const char *p, const char *end) {
    if (const char *stop = contraction(p, end, false); stop != p) return stop;
    const char *body = *p == ' ' ? p + 1 : p;
    if (body < end) {
        const uint8_t classes = char_at(body, end).classes;
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

const char *llama3(const char *p, const char *end) { return cl100k(p, end, 3); }
const char *qwen2(const char *p, const char *end) { return cl100k(p, end, 1); }

// [\p{P}$+<=>^~|]+
const char *punctuation(const char *p, const char *end) {
    while (p < end) {
        const Char c = char_at(p, end);
        const bool listed = std::string_view("$+<=>^~|").find(*p) != std::string_view::npos;
        if (!listed && !(c.classes & kPunctuation)) break;
        p += c.size;
    }
    return p;
}

// \p{N}+
const char *numbers(const char *p, const char *end) { return run(p, end, kNumber); }

// \p{N}
const char *number(const char *p, const char *end) {
    const Char c = char_at(p, end);
    return c.classes & kNumber ? p + c.size : p;
}

// [0-9][0-9][0-9]
const char *digits3(const char *p, const char *end) {
    if (end - p < 3) return p;
    for (int i = 0; i < 3; ++i)
        if (p[i] < '0' || p[i] > '9') return p;
    return p + 3;
}

constexpr struct {
    std::string_view name;
    Step step;
} kSteps[] = {
    {"gpt2", gpt2},       {"llama3", llama3}, {"qwen2", qwen2},     {"punctuation", punctuation},
    {"numbers", numbers}, {"number", number}, {"digits3", digits3},
};

}  // namespace

Step find_step(std::string_view name) {
    for (const auto &known : kSteps)
        if (known.name == name) return known.step;
    return nullptr;
}

}  // namespace unladen::tok
