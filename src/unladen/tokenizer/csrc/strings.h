// Many short strings by number, and numbers by string.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace unladen::tok {

// Strings one after another in one buffer. Together less than 4 GiB.
class Strings {
 public:
    void reserve(size_t n, size_t n_bytes);
    void push(std::string_view text);  // throws std::invalid_argument past the limit
    size_t size() const { return starts_.size() - 1; }
    std::string_view operator[](size_t i) const {
        return std::string_view(bytes_).substr(starts_[i], starts_[i + 1] - starts_[i]);
    }

 private:
    std::string bytes_;
    std::vector<uint32_t> starts_{0};
};

// A hash that differs from process to process, so that no file can be made to collide.
uint64_t hash(std::string_view text);
uint64_t hash(uint64_t value);

// Finds the number of a string in a Strings that it was told about.
class StringIndex {
 public:
    void reserve(size_t n);
    // Among equal strings the one told last counts.
    void insert(const Strings &strings, int32_t i);
    // The same for all of them at once.
    void insert_all(const Strings &strings);
    int32_t find(const Strings &strings, std::string_view text) const;  // -1: absent

    // In two steps, so that several lookups can wait for memory together; `h` is hash(text).
    void prefetch(uint64_t h) const { __builtin_prefetch(&slots_[h & (slots_.size() - 1)]); }
    int32_t find(const Strings &strings, std::string_view text, uint64_t h) const {
        return slots_[probe(strings, text, h)].i;
    }

 private:
    struct Slot {
        uint32_t hash;
        int32_t i = -1;
    };
    size_t probe(const Strings &strings, std::string_view text, uint64_t h) const;
    void put(const Strings &strings, int32_t i, uint64_t h);
    std::vector<Slot> slots_;
    size_t size_ = 0;
};

}  // namespace unladen::tok
