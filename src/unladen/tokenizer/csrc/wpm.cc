#include "tokenizer/csrc/wpm.h"

#include <stdexcept>

#include "tokenizer/csrc/unicode.h"
#include "tokenizer/csrc/unicode_forms.h"

namespace unladen::tok {
namespace {

constexpr uint32_t kMaxCharacters = 100;  // characters of a word; longer words are unknown

// Whether BERT treats the character as a word of its own. The published code has 2B920 in place of
// Unicode's 2B820, and so does this.
bool chinese(uint32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
           (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

}  // namespace

Wpm::Wpm(const Tokens &tokens, WpmOptions options) : tokens_(tokens), options_(options) {
    for (int32_t id = 0; id < tokens_.vocab->size(); ++id)
        if (tokens_.types[id] != kControl && tokens_.types[id] != kUnknown)
            trie_.add(tokens_.vocab->text(id), id);
}

// BERT's normalizer and pre-tokenizer (google-research/bert, tokenization.py): takes characters and
// produces words.
class Wpm::Words {
 public:
    Words(const Wpm &wpm, Workspace &work, std::vector<int32_t> &out)
        : wpm_(wpm), work_(work), out_(out) {
        work_.word.clear();
    }

    void add(const Char &c) {
        const bool white = c.code == '\t' || c.code == '\n' || c.code == '\r';
        if (c.code == 0 || c.code == 0xFFFD || (c.classes & kOther && !white)) return;
        if (c.classes & kSpace) return end_word();
        if (c.code >= 0x80 && chinese(c.code)) {
            end_word();
            add_form(c);
            return end_word();
        }
        add_form(c);
    }

    void end_word() {
        end_marks();
        end_letters();
    }

 private:
    void end_letters() {
        if (work_.word.empty()) return;
        work_.remember(work_.word, -1, out_, [this](std::string_view word) {
            if (n_characters_ <= kMaxCharacters) return wpm_.encode_word(word, work_, out_);
            wpm_.unknown(word, out_);
        });
        work_.word.clear();
        n_characters_ = 0;
    }

    // A character that decomposes waits for the marks that follow, to be sorted with them.
    void add_form(const Char &c) {
        if (wpm_.options_.strip_accents && c.classes & kDecomposes)
            return append_decomposed(c.code, waiting_);
        end_marks();
        add_plain(c.code, c.classes);
    }

    void end_marks() {
        if (waiting_.empty()) return;
        order_marks(waiting_);
        for (const uint32_t code : waiting_) add_plain(code, classes_of(code));
        waiting_.clear();
    }

    void add_plain(uint32_t code, uint32_t classes) {
        if (wpm_.options_.strip_accents && classes & kNonspacing) return;
        if (!wpm_.options_.lowercase || !(classes & kFolds)) return add_letter(code, classes);
        lower_.clear();
        append_lower(code, lower_);
        for (const uint32_t c : lower_) add_letter(c, classes_of(c));
    }

    void add_letter(uint32_t code, uint32_t classes) {
        const bool alone = classes & kPunctuation || (code < 0x80 && classes & kSymbol);
        if (alone) end_letters();
        append_utf8(code, work_.word);
        ++n_characters_;
        if (alone) end_letters();
    }

    const Wpm &wpm_;
    Workspace &work_;
    std::vector<int32_t> &out_;
    std::vector<uint32_t> waiting_, lower_;
    uint32_t n_characters_ = 0;
};

void Wpm::encode_word(std::string_view word, Workspace &work, std::vector<int32_t> &out) const {
    work.text.assign(kSpaceMark).append(word);
    const size_t n_before = out.size();
    for (size_t from = 0; from < work.text.size();) {
        size_t stop = from;
        int32_t best = -1, node = Trie::kRoot;
        for (size_t i = from; i < work.text.size();) {
            node = trie_.step(node, static_cast<uint8_t>(work.text[i++]));
            if (node < 0) break;
            if (trie_.value(node) >= 0) {
                best = trie_.value(node);
                stop = i;
            }
        }
        if (best < 0) {
            out.resize(n_before);
            return unknown(word, out);
        }
        out.push_back(best);
        from = stop;
    }
}

void Wpm::unknown(std::string_view word, std::vector<int32_t> &out) const {
    if (options_.unk < 0) throw std::invalid_argument("no token for '" + std::string(word) + "'");
    out.push_back(options_.unk);
}

void Wpm::encode(std::string_view text, bool, Workspace &work, std::vector<int32_t> &out) const {
    Words words(*this, work, out);
    for (const char *p = text.data(), *end = p + text.size(); p < end;) {
        const Char c = char_at(p, end);
        words.add(c);
        p += c.size;
    }
    words.end_word();
}

std::string Wpm::piece(int32_t id) const {
    const std::string_view text = tokens_.vocab->text(id);
    return tokens_.types[id] == kUserDefined ? std::string(text) : without_marks(text);
}

}  // namespace unladen::tok
