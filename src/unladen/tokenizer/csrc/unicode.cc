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

}  // namespace

const uint16_t *class_table() {
    static const std::vector<uint16_t> table = expand();
    return table.data();
}

Char char_at(const char *p, const char *end) {
    const auto byte = [p](int i) { return static_cast<uint8_t>(p[i]); };
    const uint8_t lead = byte(0);
    uint32_t code = lead, size = 1;
    if (lead >= 0x80) {
        size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
        bool whole = lead >= 0xC2 && lead <= 0xF4 && end - p >= static_cast<ptrdiff_t>(size);
        code = lead & (0x7Fu >> size);
        for (uint32_t i = 1; whole && i < size; ++i) {
            whole = (byte(i) & 0xC0) == 0x80;
            code = code << 6 | (byte(i) & 0x3F);
        }
        if (!whole || code >= kCodes) {
            code = 0xFFFD;
            size = 1;
        }
    }
    return {code, size, class_table()[code]};
}

}  // namespace unladen::tok
