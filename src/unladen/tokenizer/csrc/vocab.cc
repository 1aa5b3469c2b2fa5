#include "tokenizer/csrc/vocab.h"

namespace unladen::tok {

Vocab::Vocab(const Texts &texts) : texts_(texts), index_(texts_) {}

void with_marks(std::string_view text, std::string &out) {
    out.clear();
    size_t from = 0;
    for (size_t at; (at = text.find(' ', from)) != std::string_view::npos; from = at + 1)
        out.append(text, from, at - from) += kSpaceMark;
    out.append(text, from);
}

std::string without_marks(std::string_view text) {
    std::string out;
    size_t from = 0;
    for (size_t at; (at = text.find(kSpaceMark, from)) != std::string_view::npos;
         from = at + kSpaceMark.size())
        out.append(text.substr(from, at - from)) += ' ';
    return out.append(text.substr(from));
}

namespace {

constexpr std::string_view kDigits = "0123456789ABCDEF";

}  // namespace

std::string byte_text(int byte) {
    return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

int byte_of(std::string_view text) {
    if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
    const size_t high = kDigits.find(text[3]), low = kDigits.find(text[4]);
    return high == kDigits.npos || low == kDigits.npos ? -1 : static_cast<int>(high << 4 | low);
}

void SpecialTokens::add(std::string_view text, int32_t id, bool always) {
    if (text.empty()) return;
    first_[static_cast<uint8_t>(text[0])] = true;
    trie_.add(text, 2 * id + always);
}

SpecialTokens::Match SpecialTokens::find(std::string_view text, size_t from, bool all) const {
    for (; from < text.size(); ++from) {
        if (!first_[static_cast<uint8_t>(text[from])]) continue;
        Match best{from, from, -1};
        int32_t node = Trie::kRoot;
        for (size_t i = from; i < text.size();) {
            node = trie_.step(node, static_cast<uint8_t>(text[i++]));
            if (node < 0) break;
            const int32_t value = trie_.value(node);
            if (value >= 0 && (all || value & 1)) best = {from, i, value >> 1};
        }
        if (best.id >= 0) return best;
    }
    return {text.size(), text.size(), -1};
}

}  // namespace unladen::tok
