// The vectors of int.h in plain C++, which compilers can vectorize.
#pragma once

#include "backends/cpu/csrc/isa/activations/layout.h"
#include "backends/cpu/csrc/isa/formats/bits.h"

namespace unladen::cpu::UNLADEN_ISA {

// The sum of n products. Not inlined, so that compilers see a loop that they can vectorize.
template <int n, class T>
__attribute__((noinline)) int dot(const T *__restrict a, const int8_t *__restrict b) {
    int total = 0;
    for (int i = 0; i < n; ++i) total += int16_t(a[i]) * int16_t(b[i]);
    return total;
}

struct Bytes32 {
    uint8_t v[32];
    static Bytes32 load(const void *p) {
        Bytes32 r;
        std::memcpy(r.v, p, 32);
        return r;
    }
    static Bytes32 of(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
        const uint64_t all[] = {a, b, c, d};
        return load(all);
    }
    static Bytes32 nibbles(const uint8_t *p) {
        Bytes32 r;
        for (int i = 0; i < 16; ++i) r.v[i] = p[i] & 15;
        for (int i = 0; i < 16; ++i) r.v[i + 16] = p[i] >> 4;
        return r;
    }
    static Bytes32 where(uint32_t set) {
        Bytes32 r;
        for (int i = 0; i < 32; ++i) r.v[i] = set >> i & 1 ? 0xff : 0;
        return r;
    }
    template <class F>
    Bytes32 each(F f) const {
        Bytes32 r;
        for (int i = 0; i < 32; ++i) r.v[i] = uint8_t(f(v[i]));
        return r;
    }
    Bytes32 field(int shift, int mask) const {
        return each([=](int b) { return (shift < 0 ? b << -shift : b >> shift) & mask; });
    }
    Bytes32 up(int shift) const {
        return each([=](int b) { return b << shift; });
    }
    Bytes32 less(int bias) const {
        return each([=](int b) { return b - bias; });
    }
    Bytes32 plus(Bytes32 other) const {
        Bytes32 r;
        for (int i = 0; i < 32; ++i) r.v[i] = uint8_t(v[i] + other.v[i]);
        return r;
    }
    Bytes32 negated(uint32_t set) const {
        Bytes32 r;
        for (int i = 0; i < 32; ++i) r.v[i] = uint8_t(set >> i & 1 ? -v[i] : v[i]);
        return r;
    }
    Bytes32 first_thirds() const {
        return each([](int b) { return b * 3 >> 8; });
    }
    Bytes32 times(const Bytes32 &other) const {
        Bytes32 r;
        for (int i = 0; i < 32; ++i) r.v[i] = uint8_t(v[i] * other.v[i]);
        return r;
    }
    Bytes32 look_up(const int8_t *codebook) const {
        return each([=](int b) { return codebook[b]; });
    }
};

struct Sums {
    int v;
    static Sums zero() { return {0}; }
    Sums times(int factor) const { return {v * factor}; }
    void add_products(const Bytes32 &w, const int8_t *x) {
        v += dot<32>(reinterpret_cast<const int8_t *>(w.v), x);
    }
};

struct Words16 {
    int16_t v[16];
    static Words16 of_signed(const uint8_t *bytes) {
        Words16 r;
        for (int i = 0; i < 16; ++i) r.v[i] = int8_t(bytes[i]);
        return r;
    }
    static Words16 of_signed(uint64_t first, uint64_t second) {
        Words16 r;
        for (int i = 0; i < 8; ++i) {
            r.v[i] = int8_t(first >> 8 * i & 255);
            r.v[i + 8] = int8_t(second >> 8 * i & 255);
        }
        return r;
    }
    static Words16 twice(uint64_t bytes) {
        Words16 r;
        for (int i = 0; i < 16; ++i) r.v[i] = int16_t(bytes >> 8 * (i / 2) & 255);
        return r;
    }
    Words16 less(int b) const {
        Words16 r;
        for (int i = 0; i < 16; ++i) r.v[i] = int16_t(v[i] - b);
        return r;
    }
    Words16 field(int shift, int mask) const {
        Words16 r;
        for (int i = 0; i < 16; ++i) r.v[i] = int16_t(uint16_t(v[i]) >> shift & mask);
        return r;
    }
    Sums dot(const int16_t *other) const {
        Sums r = {0};
        for (int i = 0; i < 16; ++i) r.v += v[i] * other[i];
        return r;
    }
};

// Sums of products of 256 codes up to 3.
struct SmallSums {
    Sums all = Sums::zero();
    void add_products(const Bytes32 &w, const int8_t *x) { all.add_products(w, x); }
    void add_to(Sums &sums) const { sums.v = sums.v + all.v; }
};

struct Scales {
    Words16 words;
    explicit Scales(Words16 w) : words(w) {}
    template <bool is_signed>
    void add_products(Sums &sums, const Bytes32 &codes, const int8_t *x, int s) const {
        using Code = Choose<is_signed, int8_t, uint8_t>;
        const Code *q = reinterpret_cast<const Code *>(codes.v);
        sums.v += dot<16>(q, x) * words.v[2 * s];
        sums.v += dot<16>(q + 16, x + 16) * words.v[2 * s + 1];
    }
};

struct Total {
    float v = 0.0f;
    void add(float d, Sums sums) { v += d * float(sums.v); }
    float sum() const { return v; }
};

}  // namespace unladen::cpu::UNLADEN_ISA
