// The vectors of int.h in AVX2 registers.
#pragma once

#include "backends/cpu/csrc/isa/activations/layout.h"
#include "backends/cpu/csrc/isa/formats/bits.h"

namespace unladen::cpu::UNLADEN_ISA {

inline __m128i load128(const void *p) { return _mm_loadu_si128(static_cast<const __m128i *>(p)); }
inline __m256i load256(const void *p) {
    return _mm256_loadu_si256(static_cast<const __m256i *>(p));
}

// 16 bytes in both halves of a register.
UNLADEN_INLINE __m256i twice128(const void *p) { return _mm256_broadcastsi128_si256(load128(p)); }

struct Bytes32 {
    __m256i v;
    static Bytes32 load(const void *p) { return {load256(p)}; }
    void store(uint8_t *p) const { _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), v); }
    // Nibbles of 16 bytes, the low ones first.
    static Bytes32 nibbles(const uint8_t *p) {
        const __m256i both = _mm256_broadcastsi128_si256(load128(p));
        const __m256i down = _mm256_setr_epi64x(0, 0, 4, 4);
        return {_mm256_and_si256(_mm256_srlv_epi64(both, down), _mm256_set1_epi8(15))};
    }
    // 0xff where a bit of `set` is 1, else 0.
    static Bytes32 where(uint32_t set) {
        const __m256i pick = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202,
                                                0x0303030303030303);
        return where_own_bit(_mm256_shuffle_epi8(_mm256_set1_epi32(int(set)), pick));
    }
    // 0xff where byte i's bit i % 8 is 1, else 0.
    static Bytes32 where_own_bit(__m256i bytes) {
        const __m256i bit = _mm256_set1_epi64x(int64_t(0x8040201008040201));
        return {_mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit)};
    }
    // The bits under the mask after a shift down, or up if `shift` is negative.
    Bytes32 field(int shift, int mask) const {
        const __m256i there = shift < 0 ? _mm256_slli_epi16(v, -shift)
                                        : _mm256_srli_epi16(v, shift);
        return {_mm256_and_si256(there, _mm256_set1_epi8(char(mask)))};
    }
    // Shifts bytes up, which must stay below 256.
    Bytes32 up(int shift) const { return {_mm256_slli_epi16(v, shift)}; }
    Bytes32 plus(Bytes32 b) const { return {_mm256_add_epi8(v, b.v)}; }
    Bytes32 less(int b) const { return {_mm256_sub_epi8(v, _mm256_set1_epi8(char(b)))}; }
    // Products with x, summed two by two. 16 bits hold a pair of codes below 64 with |x| <= 127.
    __m256i pairs(const int8_t *x) const { return _mm256_maddubs_epi16(v, load256(x)); }
    // The same for codes as signed bytes of magnitude at most 128: products of |w| and sign(w) * x.
    __m256i signed_pairs(const int8_t *x) const {
        return _mm256_maddubs_epi16(_mm256_abs_epi8(v), _mm256_sign_epi8(load256(x), v));
    }
    Bytes32 look_up(const int8_t *codebook) const {
        return {_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load128(codebook)), v)};
    }
};

UNLADEN_INLINE Bytes32 masked(Bytes32 v, int mask) { return v.field(0, mask); }
// n bits from bit `from` of each byte, at bit `to`.
UNLADEN_INLINE Bytes32 shifted(Bytes32 v, int from, int n, int to) {
    return v.field(from - to, ((1 << n) - 1) << to);
}
// The same, combined with `other`.
UNLADEN_INLINE Bytes32 with_bits(Bytes32 other, Bytes32 v, int from, int n, int to) {
    return other.plus(shifted(v, from, n, to));
}

// Eight float16, `apart` bytes from one another, as float32.
UNLADEN_INLINE __m256 eight_halves(const uint8_t *p, size_t apart) {
    __m128i halves = _mm_cvtsi32_si128(bits::load<uint16_t>(p));
    halves = _mm_insert_epi16(halves, bits::load<uint16_t>(p + apart), 1);
    halves = _mm_insert_epi16(halves, bits::load<uint16_t>(p + 2 * apart), 2);
    halves = _mm_insert_epi16(halves, bits::load<uint16_t>(p + 3 * apart), 3);
    halves = _mm_insert_epi16(halves, bits::load<uint16_t>(p + 4 * apart), 4);
    halves = _mm_insert_epi16(halves, bits::load<uint16_t>(p + 5 * apart), 5);
    halves = _mm_insert_epi16(halves, bits::load<uint16_t>(p + 6 * apart), 6);
    halves = _mm_insert_epi16(halves, bits::load<uint16_t>(p + 7 * apart), 7);
    return _mm256_cvtph_ps(halves);
}

// Eight 32-bit sums.
struct Sums {
    __m256i v;
    static Sums zero() { return {_mm256_setzero_si256()}; }
    Sums times(int factor) const { return {_mm256_mullo_epi32(v, _mm256_set1_epi32(factor))}; }
    void add_products(Bytes32 w, const int8_t *x) {
        const __m256i pairs = w.signed_pairs(x);
        add(pairs, _mm256_set1_epi16(1));
    }
    // Adds sums of two products, times a scale for each.
    UNLADEN_INLINE void add(__m256i pairs, __m256i scale) {
        v = _mm256_add_epi32(v, _mm256_madd_epi16(pairs, scale));
    }
};

struct Words16 {
    __m256i v;
    static Words16 of_signed(const uint8_t *bytes) {
        return {_mm256_cvtepi8_epi16(load128(bytes))};
    }
    static Words16 of_signed(uint64_t first, uint64_t second) {
        return {_mm256_cvtepi8_epi16(_mm_set_epi64x(int64_t(second), int64_t(first)))};
    }
    static Words16 twice(uint64_t bytes) {
        const __m128i b = _mm_cvtsi64_si128(int64_t(bytes));
        return {_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(b, b))};
    }
    Words16 less(int b) const { return {_mm256_sub_epi16(v, _mm256_set1_epi16(int16_t(b)))}; }
    Words16 field(int shift, int mask) const {
        return {_mm256_and_si256(_mm256_srli_epi16(v, shift), _mm256_set1_epi16(int16_t(mask)))};
    }
    Sums dot(const int16_t *other) const { return {_mm256_madd_epi16(v, load256(other))}; }
    Bytes32 bytes() const { return {v}; }
};

// Adds to sums the products of codes and x, the first 16 times word 2 s of scales, the others times
// the next.
struct Scales {
    __m256i half[2];
    explicit Scales(Words16 w)
        : half{_mm256_permute2x128_si256(w.v, w.v, 0x00),
               _mm256_permute2x128_si256(w.v, w.v, 0x11)} {}
    // Word 2 s in one half, 2 s + 1 in the other.
    __m256i of(int s) const {
        const __m256i first = _mm256_setr_m128i(_mm_set1_epi16(0x0100), _mm_set1_epi16(0x0302));
        const __m256i pick = _mm256_add_epi8(first, _mm256_set1_epi8(char(s % 4 * 4)));
        return _mm256_shuffle_epi8(half[s / 4], pick);
    }
    template <bool is_signed, class Codes32>
    void add_products(Sums &sums, Codes32 codes, const int8_t *x, int s) const {
        const __m256i scale = of(s);
        __m256i pairs;
        if constexpr (is_signed) pairs = codes.signed_pairs(x);
        if constexpr (!is_signed) pairs = codes.pairs(x);
        sums.add(pairs, scale);
    }
};

// Sums of products of 256 codes up to 3. 16 bits hold the sums of sixteen.
struct SmallSums {
    __m256i v = _mm256_setzero_si256();
    void add_products(Bytes32 w, const int8_t *x) { v = _mm256_add_epi16(v, w.pairs(x)); }
    void add_to(Sums &sums) const {
        sums.v = _mm256_add_epi32(sums.v, _mm256_madd_epi16(v, _mm256_set1_epi16(1)));
    }
};

// Eight float32 sums.
struct Total {
    __m256 v = _mm256_setzero_ps();
    void add(float d, Sums sums) { add(_mm_set_ss(d), sums); }
    // Adds sums times the first number of d.
    UNLADEN_INLINE void add(__m128 d, Sums sums) {
        v = _mm256_fmadd_ps(_mm256_broadcastss_ps(d), _mm256_cvtepi32_ps(sums.v), v);
    }
    float sum() const {
        __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
        s = _mm_add_ps(s, _mm_movehl_ps(s, s));
        return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
