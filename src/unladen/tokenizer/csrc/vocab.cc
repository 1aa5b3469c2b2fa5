#include "tokenizer/csrc/vocab.h"

#include <utility>

namespace unladen::tok {

Vocab::Vocab(Strings texts) : texts_(std::move(texts)) {
    index_.insert_all(texts_);
}

std::string with_marks(std::string_view text) {
    std::string out;
    out.reserve(text.size() + text.size() / 2);
    for (const char c : text) c == ' ' ? out += kSpaceMark : out += c;
    return out;
}

std::string without_marks(std::string_view text) {
    std::string out;
    size_t from = 0;
    for (size_t at; (at = text.find(kSpaceMark, from)) != std::string_view::npos;
         from = at + kSpaceMark.size())
        out.append(text.substr(from, at - from)) += ' ';
    return out.append(text.substr(from));
}

std::string byte_text(int byte) {
    constexpr char digits[] = "0123456789ABCDEF";
    return {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
}

int32_t SpecialTokens::below(int32_t first, uint8_t byte) const {
    while (first >= 0 && nodes_[first].byte != byte) first = nodes_[first].sibling;
    return first;
}

void SpecialTokens::add(std::string_view text, int32_t id, bool always) {
    int32_t node = -1;
    for (const char c : text) {
        const auto byte = static_cast<uint8_t>(c);
        const int32_t first = node < 0 ? roots_[byte] : nodes_[node].child;
        int32_t next = below(first, byte);
        if (next < 0) {
            next = static_cast<int32_t>(nodes_.size());
            nodes_.push_back({.sibling = first, .byte = byte});
            (node < 0 ? roots_[byte] : nodes_[node].child) = next;
        }
        node = next;
    }
    if (node < 0) return;
    nodes_[node].id = id;
    nodes_[node].always = always;
}

SpecialTokens::Match SpecialTokens::find(std::string_view text, size_t from, bool all) const {
    for (; from < text.size(); ++from) {
        Match best{from, from, -1};
        int32_t node = roots_[static_cast<uint8_t>(text[from])];
        for (size_t i = from; node >= 0;) {
            ++i;
            const Node &at = nodes_[node];
            if (at.id >= 0 && (all || at.always)) best = {from, i, at.id};
            node = i < text.size() ? below(at.child, static_cast<uint8_t>(text[i])) : -1;
        }
        if (best.id >= 0) return best;
    }
    return {text.size(), text.size(), -1};
}

}  // namespace unladen::tok
