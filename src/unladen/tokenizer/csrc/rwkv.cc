#include "tokenizer/csrc/rwkv.h"

#include <stdexcept>

namespace unladen::tok {
namespace {

int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The bytes that a token's text spells, with the escapes of a Python byte literal.
std::string unescaped(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\\') {
            out += text[i];
            continue;
        }
        if (++i == text.size()) throw std::invalid_argument("ends in a lone backslash");
        switch (text[i]) {
            case 't': out += '\t'; break;
            case 'n': out += '\n'; break;
            case 'r': out += '\r'; break;
            case 'x': {
                const int high = i + 2 < text.size() ? hex(text[i + 1]) : -1;
                const int low = i + 2 < text.size() ? hex(text[i + 2]) : -1;
                if (high < 0 || low < 0) throw std::invalid_argument("has a broken \\x escape");
                out += static_cast<char>(high << 4 | low);
                i += 2;
                break;
            }
            default: out += text[i];
        }
    }
    return out;
}

}  // namespace

Rwkv::Rwkv(const Tokens &tokens, int32_t unk) : tokens_(tokens), unk_(unk) {
    for (int32_t id = 0; id < tokens_.vocab->size(); ++id) {
        if (tokens_.types[id] == kControl || tokens_.types[id] == kUnknown) continue;
        try {
            trie_.add(unescaped(tokens_.vocab->text(id)), id);
        } catch (const std::invalid_argument &error) {
            throw std::invalid_argument("[" + std::to_string(id) + "] " + error.what());
        }
    }
}

void Rwkv::encode(std::string_view text, bool, Workspace &,
                  std::vector<int32_t> &out) const {
    for (size_t from = 0; from < text.size();) {
        int32_t id = unk_, node = Trie::kRoot;
        size_t stop = from + 1;
        for (size_t i = from; i < text.size();) {
            node = trie_.step(node, static_cast<uint8_t>(text[i++]));
            if (node < 0) break;
            if (trie_.value(node) >= 0) {
                id = trie_.value(node);
                stop = i;
            }
        }
        if (id < 0)
            throw std::invalid_argument(
                "no token for byte " + std::to_string(static_cast<uint8_t>(text[from])));
        out.push_back(id);
        from = stop;
    }
}

std::string Rwkv::piece(int32_t id) const { return unescaped(tokens_.vocab->text(id)); }

}  // namespace unladen::tok
