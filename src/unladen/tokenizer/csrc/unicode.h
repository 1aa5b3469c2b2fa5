// Code points and their classes.
#pragma once
#include <cstdint>

namespace unladen::tok {

enum : uint16_t {
    kLetter = 1,
    kNumber = 2,
    kPunctuation = 4,
    kSymbol = 8,
    kMark = 16,
    kSeparator = 32,
    kSpace = 64,  // the property White_Space, \s of a Unicode-aware regex
    kUpper = 128,
    kLower = 256,
    kTitle = 512,
    kModifier = 1024,
    kOtherLetter = 2048,
    kDigit = 4096,
    kWord = 8192,  // \w of a Unicode-aware regex
};

// The class bits of each of the 0x110000 code points.
const uint16_t *class_table();

struct Char {
    uint32_t code;
    uint32_t size;  // bytes of UTF-8
    uint16_t classes;
};

// The character at p < end. A byte that starts no whole character counts as U+FFFD of size 1, so a
// reader always advances and never passes the end.
Char char_at(const char *p, const char *end);

}  // namespace unladen::tok
