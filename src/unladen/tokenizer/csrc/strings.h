// Stores many short strings by number, and finds the number of a string.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace unladen::tok {

// Strings in a buffer that the caller owns, each at an offset.
class Texts {
 public:
    Texts(const char *bytes, const int64_t *offsets, const int64_t *lengths, size_t size)
        : bytes_(bytes), offsets_(offsets), lengths_(lengths), size_(size) {}
    size_t size() const { return size_; }
    std::string_view operator[](size_t i) const {
        return {bytes_ + offsets_[i], static_cast<size_t>(lengths_[i])};
    }

 private:
    const char *bytes_;
    const int64_t *offsets_, *lengths_;
    size_t size_;
};

// Strings one after another in one buffer: fewer than 2^31 of them, less than 4 GiB in all.
class Strings {
 public:
    Strings() = default;
    explicit Strings(const Texts &texts);  // throws as push() does
    void push(std::string_view text);  // throws std::invalid_argument past a limit
    size_t size() const { return starts_.size() - 1; }
    std::string_view operator[](size_t i) const {
        return std::string_view(bytes_).substr(starts_[i], starts_[i + 1] - starts_[i]);
    }

 private:
    std::string bytes_;
    std::vector<uint32_t> starts_{0};
};

// Random numbers of this process, so that nobody can make a file whose hashes collide.
extern const uint64_t kSeeds[2];

// The two halves of a product, xor-ed. The hash follows Wang Yi's wyhash (2019).
inline uint64_t folded(uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash(uint64_t value) { return folded(value ^ kSeeds[0], kSeeds[1]); }

inline uint64_t hash(std::string_view text) {
    const char *p = text.data();
    const size_t n = text.size();
    const auto word = [](const char *at) {
        uint64_t value;
        std::memcpy(&value, at, 8);
        return value;
    };
    const auto half = [](const char *at) {
        uint32_t value;
        std::memcpy(&value, at, 4);
        return static_cast<uint64_t>(value);
    };
    uint64_t h = kSeeds[0] ^ n, a = 0, b = 0;
    for (size_t left = n; left > 16; left -= 16, p += 16)
        h = folded(word(p) ^ kSeeds[1], word(p + 8) ^ h);
    if (n >= 8) {
        a = n > 16 ? word(text.data() + n - 16) : word(p);
        b = word(text.data() + n - 8);
    } else if (n >= 4) {
        a = half(p), b = half(p + n - 4);
    } else if (n) {
        a = static_cast<uint8_t>(p[0]) | static_cast<uint64_t>(static_cast<uint8_t>(p[n / 2])) << 8;
        b = static_cast<uint8_t>(p[n - 1]);
    }
    return folded(folded(a ^ kSeeds[1], b ^ h) ^ kSeeds[0], kSeeds[1]);
}

// A hash table of numbers below n, found by the hash of what they stand for. A slot of four bytes
// holds the number and as many bits of the hash as fit beside it. Two of seven slots are empty.
class HashedNumbers {
 public:
    explicit HashedNumbers(size_t n) : slots_(n + n * 2 / 5 + 2), bits_(std::bit_width(n)) {}

    void prefetch(uint64_t h) const { __builtin_prefetch(&slots_[home(h)], 1); }
    // The slot of the number for which is(number), or the slot where it would be.
    template <class Is>
    size_t probe(uint64_t h, Is is) const {
        size_t at = home(h);
        while (slots_[at] && (slots_[at] >> bits_ != tag(h) || !is(number(at))))
            if (++at == slots_.size()) at = 0;
        return at;
    }
    int32_t number(size_t at) const {  // -1: none
        return static_cast<int32_t>(slots_[at] & ((uint32_t{1} << bits_) - 1)) - 1;
    }
    void put(size_t at, uint64_t h, int32_t number) {
        slots_[at] = tag(h) << bits_ | (static_cast<uint32_t>(number) + 1);
    }

 private:
    size_t home(uint64_t h) const { return static_cast<uint32_t>(h) * slots_.size() >> 32; }
    uint32_t tag(uint64_t h) const { return static_cast<uint32_t>(h >> 32) >> bits_; }

    std::vector<uint32_t> slots_;  // 0: empty
    int bits_;
};

// Finds the number of a string in a Strings; of equal strings it finds the last.
class StringIndex {
 public:
    explicit StringIndex(const Strings &strings);
    void prefetch(uint64_t h) const { numbers_.prefetch(h); }
    // Returns -1 if `text` is absent; `h` is hash(text).
    int32_t find(const Strings &strings, std::string_view text, uint64_t h) const;

 private:
    size_t probe(const Strings &strings, std::string_view text, uint64_t h) const;

    HashedNumbers numbers_;
};

}  // namespace unladen::tok
