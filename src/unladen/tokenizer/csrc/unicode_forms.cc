#include "tokenizer/csrc/unicode_forms.h"

#include <algorithm>
#include <iterator>

namespace unladen::tok {
namespace {

struct Form {
    uint32_t code;
    uint32_t to[4];  // code points up to the first 0
};

#include "tokenizer/csrc/unicode_forms.inc"

template <size_t n>
void append(const Form (&forms)[n], uint32_t code, std::vector<uint32_t> &out) {
    const Form *form = std::lower_bound(std::begin(forms), std::end(forms), code,
                                        [](const Form &f, uint32_t c) { return f.code < c; });
    if (form == std::end(forms) || form->code != code) {
        out.push_back(code);
        return;
    }
    for (const uint32_t c : form->to)
        if (c) out.push_back(c);
}

// The combining class, by which marks are sorted.
uint8_t order(uint32_t code) {
    const auto *next = std::upper_bound(std::begin(kOrders), std::end(kOrders), code,
                                        [](uint32_t c, const auto &run) { return c < run.first; });
    return next[-1].order;
}

}  // namespace

void append_decomposed(uint32_t code, std::vector<uint32_t> &out) {
    constexpr uint32_t first = 0xAC00, leads = 0x1100, vowels = 0x1161, tails = 0x11A7;
    if (code < first || code > 0xD7A3) return append(kDecompositions, code, out);
    const uint32_t n = code - first;  // Hangul: 19 leads, 21 vowels, 28 tails (0: no tail)
    out.push_back(leads + n / (21 * 28));
    out.push_back(vowels + n / 28 % 21);
    if (n % 28) out.push_back(tails + n % 28);
}

void order_marks(std::span<uint32_t> codes) {
    for (size_t i = 0; i < codes.size(); ++i) {
        size_t stop = i;
        while (stop < codes.size() && order(codes[stop])) ++stop;
        std::stable_sort(codes.begin() + i, codes.begin() + stop,
                         [](uint32_t a, uint32_t b) { return order(a) < order(b); });
        i = stop;
    }
}

void append_lower(uint32_t code, std::vector<uint32_t> &out) { append(kLowerForms, code, out); }

}  // namespace unladen::tok
