#include "tokenizer/csrc/bpe.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <thread>

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

constexpr unsigned max_threads = 4;
// Below that a thread costs more than it saves.
constexpr size_t least_per_thread = 1 << 14;

uint64_t pair_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

// A merge's texts as tokens; -1 where only merges know the text.
struct Bpe::Parts {
    size_t space;
    int32_t left, right, whole;
};

Bpe::Bpe(const Tokens &tokens, const Strings &merges, BpeOptions options)
    : tokens_(tokens), options_(std::move(options)) {
    for (int b = 0; b < 256; ++b)
        byte_symbols_[b] = symbol(options_.raw ? byte_text(b) : alphabet().text[b]);
    rules_.resize(std::bit_ceil(merges.size() + merges.size() / 3 + 2));
    // Lookups only read, so they are divided; what they find is entered in the order of ranks.
    std::vector<Parts> parts(merges.size());
    const size_t share = std::max<size_t>(
        merges.size() / std::clamp(std::thread::hardware_concurrency(), 1u, max_threads) + 1,
        least_per_thread);
    std::vector<std::jthread> threads;
    for (size_t begin = share; begin < merges.size(); begin += share)
        threads.emplace_back([this, &merges, &parts, begin, share] {
            look_up(merges, begin, std::min(begin + share, merges.size()), parts.data());
        });
    look_up(merges, 0, std::min(share, merges.size()), parts.data());
    threads.clear();
    learn(merges, parts);
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
    size_t at = home(pair);
    while (rules_[at].merge.id >= 0 && rules_[at].pair != pair) at = (at + 1) & mask;
    return at;
}

void Bpe::look_up(const Strings &merges, size_t begin, size_t end, Parts *parts) const {
    constexpr size_t ahead = 8;
    struct Waiting {
        std::string whole;
        uint64_t left, right, both;
    };
    std::array<Waiting, ahead> waiting;
    for (size_t i = begin; i < end + ahead; i++) {
        if (const size_t done = i - ahead; i >= begin + ahead && parts[done].space) {
            const Waiting &w = waiting[done % ahead];
            const std::string_view merge = merges[done];
            Parts &p = parts[done];
            p.left = tokens_.find(merge.substr(0, p.space), w.left);
            p.right = tokens_.find(merge.substr(p.space + 1), w.right);
            p.whole = tokens_.find(w.whole, w.both);
        }
        if (i >= end) continue;
        const std::string_view merge = merges[i];
        const size_t space = merge.find(' ', 1);  // a token may start with a space, not hold one
        parts[i].space = space == merge.npos || space + 1 == merge.size() ? 0 : space;
        if (!parts[i].space) continue;
        Waiting &w = waiting[i % ahead];
        w.whole.assign(merge.substr(0, space)).append(merge.substr(space + 1));
        w.left = hash(merge.substr(0, space));
        w.right = hash(merge.substr(space + 1));
        w.both = hash(std::string_view(w.whole));
        for (const uint64_t h : {w.left, w.right, w.both}) tokens_.vocab->prefetch(h);
    }
}

void Bpe::learn(const Strings &merges, const std::vector<Parts> &parts) {
    constexpr size_t ahead = 16;
    for (size_t rank = 0; rank < parts.size(); rank++) {
        if (rank + ahead < parts.size()) {
            const Parts &next = parts[rank + ahead];
            __builtin_prefetch(&rules_[home(pair_of(next.left, next.right))], 1);
        }
        const std::string_view merge = merges[rank];
        Parts p = parts[rank];
        if (!p.space)
            throw std::invalid_argument("[" + std::to_string(rank) +
                                        "] isn't two tokens and a space");
        const std::string_view left = merge.substr(0, p.space), right = merge.substr(p.space + 1);
        if (p.left < 0) p.left = symbol(left);
        if (p.right < 0) p.right = symbol(right);
        const uint64_t pair = pair_of(p.left, p.right);
        Rule &rule = rules_[probe(pair)];
        if (rule.merge.id >= 0) continue;  // the first, of lowest rank, counts
        if (p.whole < 0) p.whole = symbol(std::string(left).append(right));
        rule = {pair, {static_cast<uint32_t>(rank), p.whole}};
    }
}

Merge Bpe::find(int32_t left, int32_t right) const {
    return rules_[probe(pair_of(left, right))].merge;
}

void Bpe::emit(int32_t symbol, std::string_view bytes, std::vector<int32_t> &out) const {
    if (symbol >= 0 && symbol < tokens_.vocab->size()) {
        out.push_back(symbol);
        return;
    }
    for (const char c : bytes) {
        const auto byte = static_cast<uint8_t>(c);
        const int32_t one = byte_symbols_[byte];
        const int32_t id = one < tokens_.vocab->size() ? one : options_.unk;
        if (id < 0) throw std::invalid_argument("no token for byte " + std::to_string(byte));
        out.push_back(id);
    }
}

void Bpe::add_symbols(std::string_view word, Merger &merger) const {
    if (!options_.raw) {
        for (uint32_t i = 0; i < word.size(); ++i)
            merger.add(byte_symbols_[static_cast<uint8_t>(word[i])], i, 1);
        return;
    }
    const char *begin = word.data(), *end = begin + word.size();
    for (const char *p = begin; p < end;) {
        const std::string_view character(p, char_at(p, end).size);
        int32_t id = tokens_.find(character);
        if (id < 0) {
            const int32_t phantom = phantom_index_.find(phantoms_, character);
            if (phantom >= 0) id = tokens_.vocab->size() + phantom;
        }
        merger.add(id, static_cast<uint32_t>(p - begin), static_cast<uint32_t>(character.size()));
        p += character.size();
    }
}

bool Bpe::find_whole(std::string_view word, std::vector<int32_t> &out) const {
    if (!options_.ignore_merges &&
        !(options_.whole_lines && word.find_first_not_of('\n') == word.npos))
        return false;
    std::string letters;
    if (!options_.raw)
        for (const char c : word) letters += alphabet().text[static_cast<uint8_t>(c)];
    const int32_t id = tokens_.find(options_.raw ? word : letters);
    if (id >= 0) out.push_back(id);
    return id >= 0;
}

void Bpe::encode(std::string_view text, bool, std::vector<int32_t> &out) const {
    Merger merger;
    const std::string marked = options_.marks ? with_marks(text) : std::string();
    if (marked.size() > INT32_MAX) throw std::invalid_argument("text of 2 GiB or more");
    split(options_.steps, options_.marks ? marked : text, [&](std::string_view word) {
        if (find_whole(word, out)) return;
        merger.clear();
        add_symbols(word, merger);
        merger.run([this](const Symbol &a, const Symbol &b) { return find(a.id, b.id); });
        merger.each([&](const Symbol &s) { emit(s.id, word.substr(s.begin, s.size), out); });
    });
}

bool Bpe::looked_for(std::string_view text) const {
    return !options_.marks || text.find(kSpaceMark) == text.npos;  // reached by merging
}

std::string Bpe::piece(int32_t id) const {
    const std::string_view text = tokens_.vocab->text(id);
    if (tokens_.types[id] == kUserDefined && looked_for(text)) return std::string(text);
    if (!options_.raw) return spelled(text).value_or(std::string(text));
    const auto byte = std::find(byte_symbols_.begin(), byte_symbols_.end(), id);
    if (byte != byte_symbols_.end()) return {static_cast<char>(byte - byte_symbols_.begin())};
    return options_.marks ? without_marks(text) : std::string(text);
}

}  // namespace unladen::tok
