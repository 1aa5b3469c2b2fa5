#include "tokenizer/csrc/bpe.h"

#include <bit>
#include <stdexcept>

namespace unladen::tok {
namespace {

// GPT-2's alphabet: printable bytes of Latin-1 stand for themselves, the other 68 become, in
// order, U+0100 and up, so that token texts are printable and hold no spaces.
struct Alphabet {
    std::array<std::string, 256> text;
    std::array<int16_t, 0x144> byte;  // by code point; -1: not in the alphabet

    Alphabet() {
        byte.fill(-1);
        int other = 0x100;
        for (int b = 0; b < 256; ++b) {
            const bool itself = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
            const int code = itself ? b : other++;
            byte[code] = static_cast<int16_t>(b);
            if (code >= 0x80) text[b] += static_cast<char>(0xC0 | code >> 6);
            text[b] += static_cast<char>(code < 0x80 ? code : 0x80 | (code & 0x3F));
        }
    }
};

const Alphabet &alphabet() {
    static const Alphabet table;
    return table;
}

// The bytes that `text` spells in the alphabet, or nothing if it has other characters too.
std::optional<std::string> spelled(std::string_view text) {
    const Alphabet &letters = alphabet();
    std::string bytes;
    for (const char *p = text.data(), *end = p + text.size(); p < end;) {
        const Char c = char_at(p, end);
        if (c.code >= letters.byte.size() || letters.byte[c.code] < 0) return std::nullopt;
        bytes += static_cast<char>(letters.byte[c.code]);
        p += c.size;
    }
    return bytes;
}

uint64_t pair_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

Bpe::Bpe(const Tokens &tokens, const Strings &merges, BpeOptions options)
    : tokens_(tokens), options_(std::move(options)) {
    for (int b = 0; b < 256; ++b) byte_symbols_[b] = symbol(alphabet().text[b]);
    rules_.resize(std::bit_ceil(merges.size() + merges.size() / 3 + 2));
    for (uint32_t i = 0; i < merges.size(); ++i) learn(merges[i], i);
}

int32_t Bpe::symbol(std::string_view text) {
    if (const int32_t id = tokens_.find(text); id >= 0) return id;
    int32_t i = phantom_index_.find(phantoms_, text);
    if (i < 0) {
        i = static_cast<int32_t>(phantoms_.size());
        phantoms_.push(text);
        phantom_index_.insert(phantoms_, i);
    }
    if (i >= INT32_MAX - tokens_.vocab->size()) throw std::invalid_argument("has too many tokens");
    return tokens_.vocab->size() + i;
}

std::string_view Bpe::text(int32_t symbol) const {
    const int32_t n = tokens_.vocab->size();
    return symbol < n ? tokens_.vocab->text(symbol) : phantoms_[symbol - n];
}

size_t Bpe::probe(uint64_t pair) const {
    const size_t mask = rules_.size() - 1;
    size_t at = hash(pair) & mask;
    while (rules_[at].merge.id >= 0 && rules_[at].pair != pair) at = (at + 1) & mask;
    return at;
}

void Bpe::learn(std::string_view merge, uint32_t rank) {
    const size_t space = merge.find(' ', 1);  // a token may start with a space, not hold one
    if (space == std::string_view::npos || space + 1 == merge.size())
        throw std::invalid_argument("[" + std::to_string(rank) + "] isn't two tokens and a space");
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    const uint64_t pair = pair_of(symbol(left), symbol(right));
    Rule &rule = rules_[probe(pair)];
    if (rule.merge.id >= 0) return;  // the first, of lowest rank, counts
    rule = {pair, {rank, symbol(std::string(left).append(right))}};
}

Merge Bpe::find(int32_t left, int32_t right) const {
    return rules_[probe(pair_of(left, right))].merge;
}

void Bpe::emit(int32_t symbol, std::vector<int32_t> &out) const {
    if (symbol < tokens_.vocab->size()) {
        out.push_back(symbol);
        return;
    }
    const std::string bytes = spelled(text(symbol)).value();  // merged from single bytes
    for (const char c : bytes) {
        const auto byte = static_cast<uint8_t>(c);
        const int32_t one = byte_symbols_[byte];
        const int32_t id = one < tokens_.vocab->size() ? one : options_.unk;
        if (id < 0) throw std::invalid_argument("no token for byte " + std::to_string(byte));
        out.push_back(id);
    }
}

void Bpe::encode(std::string_view text, bool, std::vector<int32_t> &out) const {
    Merger merger;
    std::string letters;
    split(options_.steps, text, [&](std::string_view word) {
        if (options_.ignore_merges) {
            letters.clear();
            for (const char c : word) letters += alphabet().text[static_cast<uint8_t>(c)];
            if (const int32_t id = tokens_.find(letters); id >= 0) {
                out.push_back(id);
                return;
            }
        }
        merger.clear();
        for (uint32_t i = 0; i < word.size(); ++i)
            merger.add(byte_symbols_[static_cast<uint8_t>(word[i])], i, 1);
        merger.run([this](const Symbol &a, const Symbol &b) { return find(a.id, b.id); });
        merger.each([&](const Symbol &s) { emit(s.id, out); });
    });
}

std::string Bpe::piece(int32_t id) const {
    const std::string_view text = tokens_.vocab->text(id);
    if (tokens_.types[id] == kUserDefined) return std::string(text);
    return spelled(text).value_or(std::string(text));
}

}  // namespace unladen::tok
