#include "tokenizer/csrc/strings.h"

#include <array>
#include <bit>
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

void Strings::reserve(size_t n, size_t n_bytes) {
    starts_.reserve(n + 1);
    bytes_.reserve(n_bytes);
}

void Strings::push(std::string_view text) {
    if (text.size() > UINT32_MAX - bytes_.size())
        throw std::invalid_argument("has 4 GiB of text or more");
    bytes_ += text;
    starts_.push_back(static_cast<uint32_t>(bytes_.size()));
}

void StringIndex::reserve(size_t n) {
    slots_.assign(std::bit_ceil(n * 2 + 2), Slot{});
    size_ = 0;
}

size_t StringIndex::probe(const Strings &strings, std::string_view text, uint64_t h) const {
    const size_t mask = slots_.size() - 1;
    size_t at = h & mask;
    while (slots_[at].i >= 0 &&
           (slots_[at].hash != static_cast<uint32_t>(h >> 32) || strings[slots_[at].i] != text))
        at = (at + 1) & mask;
    return at;
}

void StringIndex::insert(const Strings &strings, int32_t i) {
    if (2 * (size_ + 1) > slots_.size()) {
        const std::vector<Slot> old = std::move(slots_);
        reserve(size_ * 2 + 8);
        for (const Slot &slot : old)
            if (slot.i >= 0) insert(strings, slot.i);
    }
    put(strings, i, hash(strings[i]));
}

void StringIndex::put(const Strings &strings, int32_t i, uint64_t h) {
    Slot &slot = slots_[probe(strings, strings[i], h)];
    size_ += slot.i < 0;
    slot = {static_cast<uint32_t>(h >> 32), i};
}

void StringIndex::insert_all(const Strings &strings) {
    constexpr size_t ahead = 16;
    reserve(strings.size());
    std::array<uint64_t, ahead> hashes;
    for (size_t i = 0; i < strings.size() + ahead; i++) {
        const size_t done = i - ahead;
        if (i >= ahead) put(strings, static_cast<int32_t>(done), hashes[done % ahead]);
        if (i >= strings.size()) continue;
        hashes[i % ahead] = hash(strings[i]);
        __builtin_prefetch(&slots_[hashes[i % ahead] & (slots_.size() - 1)], 1);
    }
}

int32_t StringIndex::find(const Strings &strings, std::string_view text) const {
    return slots_.empty() ? -1 : slots_[probe(strings, text, hash(text))].i;
}

}  // namespace unladen::tok
