#include "tokenizer/csrc/bpe_kin.h"

#include <algorithm>

#include "tokenizer/csrc/unicode.h"
#include "tokenizer/csrc/unicode_forms.h"

namespace unladen::tok {
namespace {

constexpr std::string_view kBegin = "<dna>", kEnd = "</dna>", kUnknownBases = "<oov>";
constexpr std::string_view kBasesMark = "\xEE\x80\x80";  // U+E000
constexpr size_t kBases = 6;

}  // namespace

HybridDna::HybridDna(const Tokens &tokens, const Texts &merges, BpeOptions options)
    : Bpe(tokens, merges, std::move(options)),
      begin_(tokens.vocab->find(kBegin)),
      end_(tokens.vocab->find(kEnd)),
      unknown_(tokens.vocab->find(kUnknownBases)) {
    if (begin_ < 0 || end_ < 0 || unknown_ < 0) begin_ = end_ = unknown_ = -1;
}

bool HybridDna::looked_for(std::string_view text) const { return text != kBegin && text != kEnd; }

void HybridDna::encode_bases(std::string_view bases, std::vector<int32_t> &out) const {
    for (size_t from = 0; from < bases.size(); from += kBases) {
        std::string word(bases.substr(from, kBases));
        for (char &c : word)
            if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
        word.resize(kBases, 'A');
        const int32_t id = tokens().find(word.append(kBasesMark));
        out.push_back(id >= 0 ? id : unknown_);
    }
}

void HybridDna::encode(std::string_view text, bool fresh, Workspace &work,
                       std::vector<int32_t> &out) const {
    while (!text.empty()) {
        const size_t begin = begin_ < 0 ? text.npos : text.find(kBegin);
        if (begin) Bpe::encode(text.substr(0, begin), fresh, work, out);
        if (begin == text.npos) return;
        out.push_back(begin_);
        text.remove_prefix(begin + kBegin.size());
        const size_t end = text.find(kEnd);
        encode_bases(text.substr(0, end), out);
        if (end == text.npos) return;
        out.push_back(end_);
        text.remove_prefix(end + kEnd.size());
    }
}

std::string HybridDna::piece(int32_t id) const {
    std::string_view text = tokens().vocab->text(id);
    if (id <= unknown_ || !text.ends_with(kBasesMark)) return Bpe::piece(id);
    text.remove_suffix(kBasesMark.size());
    return std::string(text);
}

void Whitespace::encode(std::string_view text, bool fresh, Workspace &work,
                        std::vector<int32_t> &out) const {
    std::string word;
    std::vector<uint32_t> lower;
    const auto end_word = [&] {
        if (!word.empty()) Bpe::encode(word, fresh, work, out);
        word.clear();
    };
    for (const char *p = text.data(), *end = p + text.size(); p < end;) {
        const Char c = char_at(p, end);
        if (c.classes & kSpace) {
            end_word();
        } else if (lowercase_ && c.classes & kFolds) {
            lower.clear();
            append_lower(c.code, lower);
            for (const uint32_t code : lower) append_utf8(code, word);
        } else {
            word.append(p, c.size);
        }
        p += c.size;
    }
    end_word();
}

}  // namespace unladen::tok
