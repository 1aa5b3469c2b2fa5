#include "tokenizer/csrc/unicode.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace unladen::tok {
namespace {

constexpr uint32_t kCodes = 0x110000;

struct Run {
    uint32_t first;
    uint16_t classes;
};

constexpr Run kRuns[] = {
#include "tokenizer/csrc/unicode_tables.inc"
};

std::vector<uint16_t> expand() {
    std::vector<uint16_t> table(kCodes);
    for (size_t i = 0; i < std::size(kRuns); ++i) {
        const uint32_t stop = i + 1 < std::size(kRuns) ? kRuns[i + 1].first : kCodes;
        std::fill(table.begin() + kRuns[i].first, table.begin() + stop, kRuns[i].classes);
    }
    return table;
}

constexpr std::array<uint16_t, 0x80> ascii_classes() {
    std::array<uint16_t, 0x80> table{};
    for (size_t i = 0; i < std::size(kRuns); ++i)
        for (uint32_t code = kRuns[i].first; code < table.size(); ++code)
            table[code] = kRuns[i].classes;
    return table;
}

}  // namespace

constinit const std::array<uint16_t, 0x80> kAsciiClasses = ascii_classes();

const uint16_t *class_table() {
    static const std::vector<uint16_t> table = expand();
    return table.data();
}

Char long_char_at(const char *p, const char *end) {
    const auto byte = [p](int i) { return static_cast<uint8_t>(p[i]); };
    const uint8_t lead = byte(0);
    const uint32_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    bool whole = lead >= 0xC2 && lead <= 0xF4 && end - p >= static_cast<ptrdiff_t>(size);
    uint32_t code = lead & (0x7Fu >> size);
    for (uint32_t i = 1; whole && i < size; ++i) {
        whole = (byte(i) & 0xC0) == 0x80;
        code = code << 6 | (byte(i) & 0x3F);
    }
    if (!whole || code >= kCodes) return {0xFFFD, 1, class_table()[0xFFFD]};
    return {code, size, class_table()[code]};
}

void append_utf8(uint32_t code, std::string &out) {
    const auto tail = [&out, code](int shift) {
        out += static_cast<char>(0x80 | (code >> shift & 0x3F));
    };
    if (code < 0x80) {
        out += static_cast<char>(code);
    } else if (code < 0x800) {
        out += static_cast<char>(0xC0 | code >> 6);
        tail(0);
    } else if (code < 0x10000) {
        out += static_cast<char>(0xE0 | code >> 12);
        tail(6), tail(0);
    } else {
        out += static_cast<char>(0xF0 | code >> 18);
        tail(12), tail(6), tail(0);
    }
}

}  // namespace unladen::tok
