#include "tokenizer/csrc/charsmap.h"

#include <cstring>
#include <stdexcept>

namespace unladen::tok {
namespace {

// Longer replacement texts are refused: they would let a short text become a huge one. Unicode's
// longest compatibility decomposition has 33 bytes.
constexpr size_t kMaxTextBytes = 1024;

uint32_t little_endian(const char *p) {
    uint32_t value = 0;
    for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(p[i]);
    return value;
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes) {
    if (bytes.empty()) return;
    const size_t trie_bytes = bytes.size() < 4 ? 0 : little_endian(bytes.data());
    if (bytes.size() < 4 || trie_bytes % 1024 || trie_bytes == 0 || trie_bytes >= bytes.size() - 4)
        throw std::invalid_argument("has no trie of whole blocks and texts after it");
    for (size_t i = 0; i < trie_bytes; i += 4)
        units_.push_back(little_endian(bytes.data() + 4 + i));
    if (units_[0] & kValue) throw std::invalid_argument("has a value as its root");
    texts_ = bytes.substr(4 + trie_bytes);
    if (texts_.back() != '\0') throw std::invalid_argument("has an unfinished text");
    for (uint32_t i = 0; i < units_.size(); ++i) {
        const uint32_t unit = units_[i];
        if (unit & kValue ? (unit & ~kValue) >= texts_.size()
                          : ((i ^ offset(unit)) | 0xFF) >= units_.size())
            throw std::invalid_argument("unit " + std::to_string(i) + " points outside");
    }
    for (size_t at = 0; at < texts_.size(); at = texts_.find('\0', at) + 1)
        if (texts_.find('\0', at) - at > kMaxTextBytes)
            throw std::invalid_argument("has a text of more than " +
                                        std::to_string(kMaxTextBytes) + " bytes");
}

Charsmap::Match Charsmap::find(std::string_view text) const {
    Match match;
    if (units_.empty()) return match;
    uint32_t at = offset(units_[0]);
    for (size_t i = 0; i < text.size() && text[i]; ++i) {
        const auto byte = static_cast<uint8_t>(text[i]);
        at ^= byte;
        const uint32_t unit = units_[at];
        if ((unit & (kValue | 0xFF)) != byte) break;
        at ^= offset(unit);
        if (!(unit & kHasValue) || !(units_[at] & kValue)) continue;
        match.size = i + 1;
        match.text = &texts_[units_[at] & ~kValue];
    }
    return match;
}

}  // namespace unladen::tok
