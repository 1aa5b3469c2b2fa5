#include "tokenizer/csrc/unicode.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

namespace unladen::tok {
namespace {

constexpr uint32_t kCodes = 0x110000;

struct Run {
    uint32_t first;
    uint32_t classes;
};

constexpr Run kRuns[] = {
#include "tokenizer/csrc/unicode_tables.inc"
};

// Class bits in pages of 256 code points. Most pages hold a single value; all pages of one value
// are stored once.
struct Pages {
    std::array<uint16_t, kCodes / 256> page_of;
    std::vector<std::array<uint32_t, 256>> pages;

    Pages() {
        std::map<uint32_t, uint16_t> uniform;
        size_t run = 0;
        for (uint32_t page = 0; page < page_of.size(); ++page) {
            const auto next = [&run] {
                return run + 1 < std::size(kRuns) ? kRuns[run + 1].first : kCodes;
            };
            if (next() <= page * 256) ++run;
            if (next() >= (page + 1) * 256) {
                const auto [at, added] = uniform.emplace(kRuns[run].classes, pages.size());
                if (added) pages.emplace_back().fill(kRuns[run].classes);
                page_of[page] = at->second;
                continue;
            }
            page_of[page] = static_cast<uint16_t>(pages.size());
            for (uint32_t i = 0; auto &classes : pages.emplace_back()) {
                if (next() <= page * 256 + i++) ++run;
                classes = kRuns[run].classes;
            }
        }
    }
};

constexpr std::array<uint32_t, 0x80> ascii_classes() {
    std::array<uint32_t, 0x80> table{};
    for (size_t i = 0; i < std::size(kRuns); ++i)
        for (uint32_t code = kRuns[i].first; code < table.size(); ++code)
            table[code] = kRuns[i].classes;
    return table;
}

}  // namespace

constinit const std::array<uint32_t, 0x80> kAsciiClasses = ascii_classes();

uint32_t classes_of(uint32_t code) {
    static const Pages table;
    return table.pages[table.page_of[code >> 8]][code & 255];
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
    if (!whole || code >= kCodes) return {0xFFFD, 1, classes_of(0xFFFD)};
    return {code, size, classes_of(code)};
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
