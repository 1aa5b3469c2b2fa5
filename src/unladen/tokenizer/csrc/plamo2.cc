#include "tokenizer/csrc/plamo2.h"

#include <cmath>
#include <limits>
#include <stdexcept>

#include "tokenizer/csrc/unicode.h"

namespace unladen::tok {
namespace {

// kUnknownCost is the cost of a character spelled in bytes; a token that costs kInvalidCost or more
// doesn't exist (modeling_plamo.py of pfnet/plamo-2).
constexpr double kUnknownCost = 1e7, kInvalidCost = 2e7;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Whether p lies inside a character that begins before it. A stray byte doesn't: a special token
// that is half a character may leave one.
bool inside_character(const char *begin, const char *p, const char *end) {
    if ((*p & 0xC0) != 0x80) return false;
    for (uint32_t back = 1; back < 4 && p - begin >= back; ++back)
        if (char_at(p - back, end).size > back) return true;
    return false;
}

}  // namespace

Plamo2::Plamo2(const Tokens &tokens, const std::vector<float> &scores) : tokens_(tokens) {
    for (int b = 0; b < 256; ++b) {
        byte_ids_[b] = tokens_.find(byte_text(b));
        if (byte_ids_[b] < 0 || tokens_.types[byte_ids_[b]] != kByte)
            throw std::invalid_argument("has no byte token " + byte_text(b));
    }
    costs_.reserve(scores.size());
    for (const float score : scores) costs_.push_back(-std::round(score * 1e4));
    for (int32_t id = 0; id < tokens_.vocab->size(); ++id) {
        const uint8_t type = tokens_.types[id];
        if (type != kByte && type != kControl && type != kUnknown && costs_[id] < kInvalidCost)
            trie_.add(tokens_.vocab->text(id), id);
    }
}

// Finds the cheapest tokens from the end of the text to its beginning. If several ways are equally
// cheap, it takes the one with the longest first token.
void Plamo2::encode(std::string_view text, bool fresh, Workspace &work,
                    std::vector<int32_t> &out) const {
    if (fresh && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    if (text.size() > INT32_MAX) throw std::invalid_argument("text of 2 GiB or more");
    work.path.assign(text.size() + 1, {std::numeric_limits<double>::infinity(), -1, 0});
    work.path[text.size()].score = 0;
    const char *const begin = text.data(), *const end = begin + text.size();
    for (size_t at = text.size(); at--;) {
        if (inside_character(begin, begin + at, end)) continue;
        Best &best = work.path[at];
        const uint32_t size = char_at(begin + at, end).size;
        best = {work.path[at + size].score + kUnknownCost, -1, size};
        int32_t node = Trie::kRoot;
        for (size_t stop = at; stop < text.size();) {
            node = trie_.step(node, static_cast<uint8_t>(text[stop++]));
            if (node < 0) break;
            const int32_t id = trie_.value(node);
            if (id < 0) continue;
            const double cost = work.path[stop].score + costs_[id];
            if (cost <= best.score) best = {cost, id, static_cast<uint32_t>(stop - at)};
        }
    }
    for (size_t at = 0; at < text.size(); at += work.path[at].size) {
        const Best &best = work.path[at];
        if (best.id >= 0)
            out.push_back(best.id);
        else
            for (const char c : text.substr(at, best.size))
                out.push_back(byte_ids_[static_cast<uint8_t>(c)]);
    }
}

std::string Plamo2::piece(int32_t id) const {
    const std::string_view text = tokens_.vocab->text(id);
    const int byte = tokens_.types[id] == kByte ? byte_of(text) : -1;
    return byte >= 0 ? std::string(1, static_cast<char>(byte)) : std::string(text);
}

}  // namespace unladen::tok
