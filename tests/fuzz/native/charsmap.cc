// Runs SentencePiece's normalization table with any contents on any text.
#include <fuzzer/FuzzedDataProvider.h>

#include <stdexcept>

#include "tokenizer/csrc/charsmap.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    FuzzedDataProvider input(data, size);
    std::string table;
    if (input.ConsumeBool()) {
        table = input.ConsumeRandomLengthString();
    } else {  // a sound frame, so that lookups reach the input's units
        const uint32_t n_bytes = 1024 * input.ConsumeIntegralInRange<uint32_t>(1, 2);
        for (int i = 0; i < 4; ++i) table += static_cast<char>(n_bytes >> 8 * i);
        std::string trie = input.ConsumeBytesAsString(
            input.ConsumeIntegralInRange<size_t>(0, n_bytes));
        trie.resize(n_bytes);
        table += trie + input.ConsumeRandomLengthString(64) + '\0';
    }
    const std::string text = input.ConsumeRemainingBytesAsString();
    try {
        const unladen::tok::Charsmap map(table);
        for (size_t at = 0; at < text.size(); ++at) {
            const auto match = map.find(std::string_view(text).substr(at));
            if (match.size > text.size() - at || match.text.size() > 1024) __builtin_trap();
        }
    } catch (const std::invalid_argument &) {
        // The expected error for a malformed table.
    }
    return 0;
}
