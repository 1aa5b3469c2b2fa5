#include "tokenizer/csrc/strings.h"

#include <algorithm>
#include <array>
#include <random>
#include <stdexcept>

namespace unladen::tok {
namespace {

uint64_t odd_random() {
    static std::random_device source;
    return static_cast<uint64_t>(source()) << 32 | source() | 1;
}

}  // namespace

const uint64_t kSeeds[2] = {odd_random(), odd_random()};

Strings::Strings(const Texts &texts) {
    size_t n_bytes = 0;
    for (size_t i = 0; i < texts.size(); i++) n_bytes += texts[i].size();
    starts_.reserve(texts.size() + 1);
    bytes_.reserve(std::min<size_t>(n_bytes, UINT32_MAX));
    for (size_t i = 0; i < texts.size(); i++) push(texts[i]);
}

void Strings::push(std::string_view text) {
    if (text.size() > UINT32_MAX - bytes_.size())
        throw std::invalid_argument("has 4 GiB of text or more");
    if (size() == INT32_MAX) throw std::invalid_argument("has 2 to the 31 texts or more");
    bytes_ += text;
    starts_.push_back(static_cast<uint32_t>(bytes_.size()));
}

size_t StringIndex::probe(const Strings &strings, std::string_view text, uint64_t h) const {
    return numbers_.probe(h, [&](int32_t i) { return strings[i] == text; });
}

StringIndex::StringIndex(const Strings &strings) : numbers_(strings.size()) {
    constexpr size_t ahead = 16;
    std::array<uint64_t, ahead> hashes;
    for (size_t i = 0; i < strings.size() + ahead; i++) {
        if (i >= ahead) {
            const size_t done = i - ahead;
            const uint64_t h = hashes[done % ahead];
            numbers_.put(probe(strings, strings[done], h), h, static_cast<int32_t>(done));
        }
        if (i >= strings.size()) continue;
        hashes[i % ahead] = hash(strings[i]);
        numbers_.prefetch(hashes[i % ahead]);
    }
}

int32_t StringIndex::find(const Strings &strings, std::string_view text, uint64_t h) const {
    return numbers_.number(probe(strings, text, h));
}

}  // namespace unladen::tok
