#include "tokenizer/csrc/ugm.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "tokenizer/csrc/unicode.h"

namespace unladen::tok {

Ugm::Ugm(const Tokens &tokens, Charsmap charsmap, UgmOptions options)
    : tokens_(tokens), charsmap_(std::move(charsmap)), options_(std::move(options)) {
    byte_ids_.fill(-1);
    for (int b = 0; b < 256; ++b) {
        const int32_t id = tokens_.find(byte_text(b));
        if (id >= 0 && tokens_.types[id] == kByte) byte_ids_[b] = id;
        bytes_ = bytes_ && byte_ids_[b] >= 0;
    }
    const auto normal = [this](int32_t id) {
        return tokens_.types[id] == kNormal || tokens_.types[id] == kUndefined;
    };
    float least = std::numeric_limits<float>::max(), most = -least;
    for (int32_t id = 0; id < tokens_.vocab->size(); ++id) {
        if (!normal(id)) continue;
        least = std::min(least, options_.scores[id]);
        most = std::max(most, options_.scores[id]);
    }
    for (int32_t id = 0; id < tokens_.vocab->size(); ++id) {
        const std::string_view text = tokens_.vocab->text(id);
        if (tokens_.types[id] == kUserDefined)  // a score that no other tokens can reach
            options_.scores[id] = static_cast<float>(text.size()) * most - 0.1f;
        else if (!normal(id)) continue;
        trie_.add(text, id);
        ends_.add(text);
    }
    unk_score_ = static_cast<double>(least) - 10;
}

bool Ugm::looked_for(std::string_view text) const {
    return text.find(kSpaceMark) == std::string_view::npos;  // raw text has spaces, not marks
}

// Normalizes as SentencePiece's normalizer.cc does.
void Ugm::normalize(std::string_view text, bool fresh, std::string &out) const {
    const char *p = text.data(), *const end = p + text.size();
    const auto next = [&]() -> std::string_view {
        const Charsmap::Match match = charsmap_.find({p, end});
        const Char c = char_at(p, end);
        const char *from = p;
        p += match.size ? match.size : c.size;
        if (match.size) return match.text;
        return c.code == 0xFFFD ? std::string_view("\xEF\xBF\xBD") : std::string_view(from, p);
    };
    const bool merge = options_.merge_spaces;
    out.clear();
    std::string_view piece;
    do {
        if (p == end) return;  // the text has only spaces
        piece = next();
    } while (merge && piece == " ");
    if (fresh && options_.space_prefix) out += kSpaceMark;
    for (bool after_space = merge;; piece = next()) {
        while (after_space && piece.starts_with(' ')) piece.remove_prefix(1);
        for (const char c : piece) c == ' ' ? out += kSpaceMark : out += c;
        if (!piece.empty()) after_space = merge && piece.ends_with(' ');
        if (p == end) break;
    }
    while (merge && out.ends_with(kSpaceMark)) out.resize(out.size() - kSpaceMark.size());
}

// Finds the likeliest tokens by Viterbi's algorithm. Scores are added in float64, as Hugging Face's
// tokenizers do: ways of equal probability stay equal, and the first of them is taken.
void Ugm::encode_word(std::string_view word, Workspace &work, size_t n_before,
                      std::vector<int32_t> &out) const {
    work.path.assign(word.size() + 1, {-std::numeric_limits<double>::infinity(), -1, 0});
    work.path[0].score = 0;
    const char *const begin = word.data(), *const end = begin + word.size();
    for (const char *p = begin; p < end;) {
        const double here = work.path[p - begin].score;
        const uint32_t size = char_at(p, end).size;
        const auto reach = [&](const char *stop, int32_t id, double score) {
            Best &best = work.path[stop - begin];
            // Every position that can be reached gets a way back, even if the sum is -inf or NaN.
            if (best.size == 0 || here + score > best.score)
                best = {here + score, id, static_cast<uint32_t>(stop - p)};
        };
        bool spelled = false;
        int32_t node = Trie::kRoot;
        for (const char *q = p; q < end;) {
            node = trie_.step(node, static_cast<uint8_t>(*q++));
            if (node < 0) break;
            const int32_t id = trie_.value(node);
            if (id < 0) continue;
            spelled = spelled || q == p + size;
            reach(q, id, options_.scores[id]);
        }
        if (!spelled) reach(p + size, -1, unk_score_);
        p += size;
    }
    const size_t first = out.size();
    for (size_t at = word.size(); at; at -= work.path[at].size) {
        const Best &best = work.path[at];
        if (best.id >= 0) {
            out.push_back(best.id);
        } else if (bytes_) {
            for (size_t i = at; i-- > at - best.size;)
                out.push_back(byte_ids_[static_cast<uint8_t>(word[i])]);
        } else if (options_.unk >= 0) {
            if (out.size() == first || out.back() != options_.unk) out.push_back(options_.unk);
        } else {
            throw std::invalid_argument(
                "no token for '" + std::string(word.substr(at - best.size, best.size)) + "'");
        }
    }
    std::reverse(out.begin() + first, out.end());
    if (first > n_before && first < out.size() && out[first] == options_.unk &&
        out[first - 1] == options_.unk)
        out.erase(out.begin() + first);  // neighbouring unknown words become one token
}

void Ugm::encode(std::string_view text, bool fresh, Workspace &work,
                 std::vector<int32_t> &out) const {
    const size_t n_before = out.size();
    normalize(text, fresh, work.text);
    if (work.text.size() > INT32_MAX) throw std::invalid_argument("text of 2 GiB or more");
    ends_.each(work.text, [&](std::string_view word) {
        work.remember(word, options_.unk, out, [&](std::string_view unknown) {
            encode_word(unknown, work, n_before, out);
        });
    });
}

std::string Ugm::piece(int32_t id) const {
    const std::string_view text = tokens_.vocab->text(id);
    if (tokens_.types[id] == kUserDefined && looked_for(text)) return std::string(text);
    const int byte = tokens_.types[id] == kByte ? byte_of(text) : -1;
    return byte >= 0 ? std::string(1, static_cast<char>(byte)) : without_marks(text);
}

}  // namespace unladen::tok
