#include "tokenizer/csrc/spm.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "tokenizer/csrc/unicode.h"

namespace unladen::tok {
namespace {

// The order of a score for Merger, which merges the lowest first: the highest score.
uint32_t order(float score) {
    const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 and 0 are equal
    return bits >> 31 ? bits : ~(bits | 1u << 31);
}

}  // namespace

Spm::Spm(const Tokens &tokens, SpmOptions options)
    : tokens_(tokens), options_(std::move(options)) {
    for (int b = 0; b < 256; ++b) byte_ids_[b] = tokens_.find(byte_text(b));
    for (int32_t id = 0; id < tokens_.vocab->size(); ++id) {
        const std::string_view text = tokens_.vocab->text(id);
        longest_ = std::max(longest_, text.size());
        if (find(text) == id) ends_.add(text);
    }
}

int32_t Spm::find(std::string_view text) const {
    if (text.size() > longest_) return -1;
    const int32_t id = tokens_.find(text);
    return id >= 0 && tokens_.types[id] != kUnknown && tokens_.types[id] != kByte ? id : -1;
}

bool Spm::looked_for(std::string_view text) const {
    return text.find(kSpaceMark) == std::string_view::npos;  // merging finds tokens with marks
}

void Spm::emit(std::string_view character, std::vector<int32_t> &out) const {
    const auto has_token = [this](char c) { return byte_ids_[static_cast<uint8_t>(c)] >= 0; };
    if (const int32_t id = find(character); id >= 0) {
        out.push_back(id);
    } else if (std::all_of(character.begin(), character.end(), has_token)) {
        for (const char c : character) out.push_back(byte_ids_[static_cast<uint8_t>(c)]);
    } else if (options_.unk >= 0) {
        if (out.empty() || out.back() != options_.unk) out.push_back(options_.unk);
    } else {
        throw std::invalid_argument("no token for '" + std::string(character) + "'");
    }
}

void Spm::encode(std::string_view text, bool fresh, Workspace &work,
                 std::vector<int32_t> &out) const {
    with_marks(text, work.text);
    if (fresh && options_.space_prefix) work.text.insert(0, kSpaceMark);
    if (work.text.size() > INT32_MAX) throw std::invalid_argument("text of 2 GiB or more");
    ends_.each(work.text, [&](std::string_view word) {
        work.remember(word, options_.unk, out, [&](std::string_view unknown) {
            encode_word(unknown, work.merger, out);
        });
    });
}

void Spm::encode_word(std::string_view word, Merger &merger, std::vector<int32_t> &out) const {
    merger.clear();
    const char *begin = word.data(), *end = begin + word.size();
    for (const char *p = begin; p < end;) {
        const uint32_t size = char_at(p, end).size;
        merger.add(-1, static_cast<uint32_t>(p - begin), size);
        p += size;
    }
    merger.run([&](const Symbol &a, const Symbol &b) {
        const int32_t id = find(word.substr(a.begin, a.size + b.size));
        return Merge{id < 0 ? 0 : order(options_.scores[id]), id};
    });
    merger.each([&](const Symbol &s) {
        s.id >= 0 ? out.push_back(s.id) : emit(word.substr(s.begin, s.size), out);
    });
}

std::string Spm::piece(int32_t id) const {
    const std::string_view text = tokens_.vocab->text(id);
    const uint8_t type = tokens_.types[id];
    if (type == kUserDefined && looked_for(text)) return std::string(text);
    const int byte = type == kByte || type == kUndefined ? byte_of(text) : -1;
    return byte >= 0 ? std::string(1, static_cast<char>(byte)) : without_marks(text);
}

}  // namespace unladen::tok
