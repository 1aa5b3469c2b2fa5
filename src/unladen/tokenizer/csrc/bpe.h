// BPE (tokenizer.ggml.model "gpt2" and its kin), over bytes or over characters.
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "tokenizer/csrc/encoder.h"
#include "tokenizer/csrc/merge.h"
#include "tokenizer/csrc/split.h"

namespace unladen::tok {

struct BpeOptions {
    std::vector<Step> steps;
    bool ignore_merges;  // a word that is a token is that token, whatever its merges say
    int32_t unk;         // for bytes without a token; -1: they are an error
    bool raw = false;    // over characters, spelled as they are; bytes are <0x00> to <0xFF>
    bool marks = false;  // with raw: a space is U+2581
    bool whole_lines = false;  // as ignore_merges, for words of line feeds alone
};

class Bpe final : public Encoder {
 public:
    Bpe(const Tokens &tokens, const Strings &merges, BpeOptions options);
    void encode(std::string_view text, bool fresh, std::vector<int32_t> &out) const override;
    std::string piece(int32_t id) const override;
    bool looked_for(std::string_view text) const override;

 private:
    // Symbols are ids, or from vocab.size() on texts that only merges know.
    int32_t symbol(std::string_view text);
    std::string_view text(int32_t symbol) const;
    struct Parts;
    void look_up(const Strings &merges, size_t begin, size_t end, Parts *parts) const;
    void learn(const Strings &merges, const std::vector<Parts> &parts);
    void emit(int32_t symbol, std::string_view bytes, std::vector<int32_t> &out) const;
    void add_symbols(std::string_view word, Merger &merger) const;
    bool find_whole(std::string_view word, std::vector<int32_t> &out) const;
    Merge find(int32_t left, int32_t right) const;

    struct Rule {
        uint64_t pair = 0;  // left << 32 | right
        Merge merge{0, -1};
    };
    size_t home(uint64_t pair) const { return hash(pair) & (rules_.size() - 1); }
    size_t probe(uint64_t pair) const;

    const Tokens &tokens_;
    BpeOptions options_;
    Strings phantoms_;
    StringIndex phantom_index_;
    std::vector<Rule> rules_;
    std::array<int32_t, 256> byte_symbols_;
};

}  // namespace unladen::tok
