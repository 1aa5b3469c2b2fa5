#include "tokenizer/csrc/bpe.h"

#include <optional>
#include <stdexcept>

namespace unladen::tok {
namespace {

constexpr int32_t kMerged = 256;
constexpr size_t kLetterBytes = 2;  // UTF-8 bytes of a letter of the alphabet at most

// GPT-2's alphabet of bytes: printable bytes of Latin-1 stand for themselves; the other 68 become
// U+0100 and up, in order. So token texts are printable and contain no spaces.
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
            append_utf8(code, text[b]);
        }
    }
};

const Alphabet &alphabet() {
    static const Alphabet table;
    return table;
}

// The bytes that `text` spells in the alphabet; nothing if it has other characters, too.
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

// The byte that the letter `text` stands for; -1: `text` isn't a letter.
int letter(std::string_view text) {
    const auto bytes = text.size() > kLetterBytes ? std::nullopt : spelled(text);
    return bytes && bytes->size() == 1 ? static_cast<uint8_t>(bytes->front()) : -1;
}

}  // namespace

Bpe::Bpe(const Tokens &tokens, const Texts &merges, BpeOptions options)
    : tokens_(tokens), options_(std::move(options)), rules_(*tokens.vocab, merges) {
    const auto &letters = alphabet().text;
    for (int b = 0; b < 256; ++b)
        byte_ids_[b] = tokens_.find(options_.raw ? byte_text(b) : letters[b]);
    if (options_.marks)
        for (int32_t i = 0; i < rules_.size(); ++i) ends_.add(rules_.merged(i));
    if (options_.raw) return;
    byte_pairs_.assign(256 * 256, -1);
    for (int32_t i = rules_.size(); i-- > 0;) {  // backwards, so that a pair's first merge is kept
        const std::string_view both = rules_.merged(i);
        if (both.size() > 2 * kLetterBytes) continue;
        const size_t cut = rules_.cut(i);
        const int left = letter(both.substr(0, cut)), right = letter(both.substr(cut));
        if (left >= 0 && right >= 0) byte_pairs_[left << 8 | right] = i;
    }
}

// `letters` spell the word in the vocabulary's alphabet.
void Bpe::emit(std::string_view letters, std::vector<int32_t> &out) const {
    if (const int32_t id = tokens_.find(letters); id >= 0) {
        out.push_back(id);
        return;
    }
    for (const char c : options_.raw ? std::string(letters) : *spelled(letters)) {
        const auto byte = static_cast<uint8_t>(c);
        const int32_t id = byte_ids_[byte] >= 0 ? byte_ids_[byte] : options_.unk;
        if (id < 0) throw std::invalid_argument("no token for byte " + std::to_string(byte));
        out.push_back(id);
    }
}

int32_t Bpe::rank(std::string_view word, const Symbol &a, const Symbol &b) const {
    if (a.id < kMerged && b.id < kMerged) return byte_pairs_[a.id << 8 | b.id];
    return rules_.rank(word.substr(a.begin, a.size + b.size), a.size);
}

// A symbol's id is its byte if it is a single byte, else kMerged.
void Bpe::merge(std::string_view word, Workspace &work, std::vector<int32_t> &out) const {
    std::string_view letters = word;
    work.merger.clear();
    if (options_.raw) {
        const char *begin = word.data(), *end = begin + word.size();
        for (const char *p = begin; p < end;) {
            const uint32_t size = char_at(p, end).size;
            work.merger.add(kMerged, static_cast<uint32_t>(p - begin), size);
            p += size;
        }
    } else {
        work.word.clear();
        for (const char c : word) {
            const std::string &letter = alphabet().text[static_cast<uint8_t>(c)];
            work.merger.add(static_cast<uint8_t>(c), static_cast<uint32_t>(work.word.size()),
                            static_cast<uint32_t>(letter.size()));
            work.word += letter;
        }
        letters = work.word;
    }
    if (options_.ignore_merges ||
        (options_.whole_lines && word.find_first_not_of('\n') == word.npos)) {
        if (const int32_t id = tokens_.find(letters); id >= 0) {
            out.push_back(id);
            return;
        }
    }
    work.merger.run([&](const Symbol &a, const Symbol &b) {
        const int32_t found = rank(letters, a, b);
        return Merge{static_cast<uint32_t>(found), found < 0 ? -1 : kMerged};
    });
    work.merger.each([&](const Symbol &s) { emit(letters.substr(s.begin, s.size), out); });
}

void Bpe::encode_word(std::string_view word, Workspace &work, std::vector<int32_t> &out) const {
    if (word.size() > INT32_MAX) throw std::invalid_argument("text of 2 GiB or more");
    work.remember(word, -1, out, [&](std::string_view unknown) { merge(unknown, work, out); });
}

void Bpe::encode(std::string_view text, bool, Workspace &work, std::vector<int32_t> &out) const {
    if (options_.marks) with_marks(text, work.text);
    const auto encode_one = [&](std::string_view word) { encode_word(word, work, out); };
    split(options_.steps, options_.marks ? work.text : text, [&](std::string_view word) {
        options_.marks ? ends_.each(word, encode_one) : encode_one(word);
    });
}

bool Bpe::looked_for(std::string_view text) const {
    // Merging finds the tokens with marks: they aren't in raw text.
    return !options_.marks || text.find(kSpaceMark) == text.npos;
}

std::string Bpe::piece(int32_t id) const {
    const std::string_view text = tokens_.vocab->text(id);
    if (tokens_.types[id] == kUserDefined && looked_for(text)) return std::string(text);
    if (!options_.raw) return spelled(text).value_or(std::string(text));
    if (const int byte = byte_of(text); byte >= 0) return {static_cast<char>(byte)};
    return options_.marks ? without_marks(text) : std::string(text);
}

}  // namespace unladen::tok
