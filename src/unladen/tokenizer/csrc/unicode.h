// Code points and their classes.
#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace unladen::tok {

enum : uint32_t {
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
    kOther = 16384,       // controls, formats, private use
    kDecomposes = 32768,  // has a canonical decomposition or a combining class
    kFolds = 65536,       // differs from its lower case
    kNonspacing = 131072,
};

// The class bits of a code point below 0x110000; those of the first ones are in a table.
uint32_t classes_of(uint32_t code);
extern const std::array<uint32_t, 0x80> kAsciiClasses;

struct Char {
    uint32_t code;
    uint32_t size;  // UTF-8 bytes
    uint32_t classes;
};

// The character at p < end. A byte that doesn't start a whole character is returned as U+FFFD of
// size 1, so a reader always advances and never passes the end.
Char long_char_at(const char *p, const char *end);
inline Char char_at(const char *p, const char *end) {
    const auto lead = static_cast<uint8_t>(*p);
    return lead < 0x80 ? Char{lead, 1, kAsciiClasses[lead]} : long_char_at(p, end);
}

void append_utf8(uint32_t code, std::string &out);

}  // namespace unladen::tok
