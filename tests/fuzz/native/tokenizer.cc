// Runs every kind of tokenizer, with vocabularies that no trainer would make, on any text.
#include <fuzzer/FuzzedDataProvider.h>

#include <limits>
#include <stdexcept>

#include "tokenizer/csrc/bpe_kin.h"
#include "tokenizer/csrc/opaque.h"
#include "tokenizer/csrc/plamo2.h"
#include "tokenizer/csrc/rwkv.h"
#include "tokenizer/csrc/spm.h"
#include "tokenizer/csrc/tokenizer.h"
#include "tokenizer/csrc/ugm.h"
#include "tokenizer/csrc/wpm.h"

using namespace unladen::tok;

namespace {

constexpr const char *kSteps[] = {
    "gpt2", "llama3", "qwen2", "punctuation", "numbers", "number", "digits3", "number_thirds",
    "before_thirds", "digits_apart", "apart_thirds", "trailing", R"([^\n]+|[\n]+)", R"(\S+)",
    R"(\p{N}{1,3})", R"([^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\s+(?!\S)|\s+)"};
constexpr std::string_view kTexts[] = {
    "\xE2\x96\x81", "\xE2\x96\x81\xE2\x96\x81", "<dna>", "</dna>", "<oov>", "ACGTAC\xEE\x80\x80",
    "<unk>", "hello", "\\x41", "\\", "\xC4\xA0", "\xC4\x8A", "0", "##a", "\xF0\x9F\x98\x80"};

std::string text(FuzzedDataProvider &input, size_t most) {
    return input.ConsumeBool() ? std::string(input.PickValueInArray(kTexts))
                               : input.ConsumeRandomLengthString(most);
}

// Strings in one buffer, as in a file.
struct Listed {
    std::string bytes;
    std::vector<int64_t> offsets, lengths;

    void push(std::string_view text) {
        offsets.push_back(static_cast<int64_t>(bytes.size()));
        lengths.push_back(static_cast<int64_t>(text.size()));
        bytes += text;
    }
    Texts texts() const { return {bytes.data(), offsets.data(), lengths.data(), lengths.size()}; }
};

std::vector<float> scores(FuzzedDataProvider &input, size_t n) {
    std::vector<float> out;
    for (size_t i = 0; i < n; ++i) {
        const auto value = input.ConsumeIntegral<int8_t>();
        out.push_back(value == 127 ? std::numeric_limits<float>::quiet_NaN()
                      : value == 126 ? std::numeric_limits<float>::infinity()
                      : value == 125 ? -std::numeric_limits<float>::infinity() : value / 8.0f);
    }
    return out;
}

std::unique_ptr<Encoder> encoder(FuzzedDataProvider &input, const Tokens &tokens) {
    const int32_t n = tokens.vocab->size();
    const int32_t unk = input.ConsumeIntegralInRange<int32_t>(-1, n - 1);
    const bool a = input.ConsumeBool(), b = input.ConsumeBool();
    switch (const int kind = input.ConsumeIntegralInRange(0, 8)) {
        case 0: return std::make_unique<Opaque>(tokens);
        case 1: return std::make_unique<Rwkv>(tokens, unk);
        case 2: return std::make_unique<Wpm>(tokens, WpmOptions{a, b, unk});
        case 3: return std::make_unique<Spm>(tokens, SpmOptions{scores(input, n), a, unk});
        case 4: return std::make_unique<Plamo2>(tokens, scores(input, n));
        case 5:
            return std::make_unique<Ugm>(tokens, Charsmap(""),
                                         UgmOptions{scores(input, n), a, b, unk});
        default: {
            Listed merges;
            for (int left = input.ConsumeIntegralInRange(0, 30); left > 0; --left)
                merges.push(text(input, 4) + (input.ConsumeBool() ? " " : "") + text(input, 4));
            BpeOptions options{{}, a, unk, b, b && input.ConsumeBool(), input.ConsumeBool()};
            for (int left = input.ConsumeIntegralInRange(0, 2); left > 0; --left)
                options.steps.emplace_back(input.PickValueInArray(kSteps));
            if (kind == 6)
                return std::make_unique<Bpe>(tokens, merges.texts(), std::move(options));
            if (kind == 7)
                return std::make_unique<HybridDna>(tokens, merges.texts(), std::move(options));
            return std::make_unique<Whitespace>(tokens, merges.texts(), std::move(options), a);
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    FuzzedDataProvider input(data, size);
    Listed texts;
    if (input.ConsumeBool())
        for (int b = 0; b < 256; ++b) texts.push(byte_text(b));
    for (int left = input.ConsumeIntegralInRange(1, 40); left > 0; --left)
        texts.push(text(input, 12));
    const size_t n = texts.lengths.size();
    std::vector<uint8_t> types, strips;
    for (size_t i = 0; i < n; ++i) {
        const auto both = input.ConsumeIntegral<uint8_t>();
        types.push_back(both % 7);
        strips.push_back(both >> 6);
    }
    try {
        auto tokens = std::make_shared<Tokens>(
            Tokens{std::make_shared<Vocab>(texts.texts()), types, strips});
        auto made = encoder(input, *tokens);
        const Tokenizer tokenizer(tokens, std::move(made));
        for (size_t id = 0; id < n; ++id) tokenizer.piece(static_cast<int32_t>(id), true, true);
        const bool special = input.ConsumeBool(), fresh = input.ConsumeBool();
        const std::string all = input.ConsumeRemainingBytesAsString();
        for (int pass = 0; pass < 2; ++pass) {  // the second pass finds the first one's words
            const auto ids = tokenizer.encode(all, special, fresh);
            for (const int32_t id : ids)
                if (id < 0 || static_cast<size_t>(id) >= n) __builtin_trap();
            const std::vector<int64_t> wide(ids.begin(), ids.end());
            tokenizer.decode(wide, special, true);
        }
    } catch (const std::invalid_argument &) {
        // The expected error for a malformed vocabulary, or for text that it can't write.
    }
    return 0;
}
