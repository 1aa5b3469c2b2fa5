// The integers inside blocks as AVX-512 registers: 64 unsigned codes, the first operand of
// vpdpbusd, in the lane orders of linear_act.h. Layouts of blocks: the headers in quants/.
//
// bias_log2: codes are too large by that power of two; 0: they are what they are.
#pragma once

#include "backends/cpu/csrc/isa/linear_act.h"
#include "backends/cpu/csrc/quants/all.h"

namespace unladen::cpu::UNLADEN_ISA {

// The matrix of vgf2p8affineqb that takes n bits from bit `from` of each byte to bit `to`: the row
// that makes bit i of the result is byte 7 - i.
constexpr uint64_t bit_field(int from, int to, int n) {
    uint64_t matrix = 0;
    for (int i = 0; i < n; ++i) matrix |= uint64_t(1) << (from + i) << 8 * (7 - (to + i));
    return matrix;
}

// Such fields, with a first bit for each of the four 128-bit lanes.
UNLADEN_INLINE __m512i fields(__m512i v, int to, int n, int from0, int from1, int from2, int from3) {
    const int64_t a = int64_t(bit_field(from0, to, n)), b = int64_t(bit_field(from1, to, n)),
                  c = int64_t(bit_field(from2, to, n)), d = int64_t(bit_field(from3, to, n));
    return _mm512_gf2p8affine_epi64_epi8(v, _mm512_setr_epi64(a, a, b, b, c, c, d, d), 0);
}

UNLADEN_INLINE __m128i load128(const void *p) { return _mm_loadu_si128(static_cast<const __m128i *>(p)); }
UNLADEN_INLINE __m256i load256(const void *p) {
    return _mm256_loadu_si256(static_cast<const __m256i *>(p));
}

// 16 bytes in each lane.
UNLADEN_INLINE __m512i lanes(const uint8_t *p) { return _mm512_broadcast_i32x4(load128(p)); }
UNLADEN_INLINE __m512i load512(const void *p) { return _mm512_loadu_si512(p); }
// Lanes i and j of a, then of b.
template <int i, int j>
UNLADEN_INLINE __m512i pick_lanes(__m512i a, __m512i b) {
    return _mm512_shuffle_i32x4(a, b, i | j << 2 | i << 4 | j << 6);
}
UNLADEN_INLINE __m512i lanes(const uint8_t *p0, const uint8_t *p1, const uint8_t *p2, const uint8_t *p3) {
    const __m512i first = _mm512_mask_broadcast_i32x4(lanes(p0), 0x00f0, load128(p1));
    const __m512i third = _mm512_mask_broadcast_i32x4(first, 0x0f00, load128(p2));
    return _mm512_mask_broadcast_i32x4(third, 0xf000, load128(p3));
}

// --- Four blocks of 32 ---

struct Four {
    const uint8_t *b[4];

    // What lies at byte `at` of each block.
    UNLADEN_INLINE __m512i lanes_at(int at) const { return lanes(b[0] + at, b[1] + at, b[2] + at, b[3] + at); }
    UNLADEN_INLINE uint64_t words_at(int at) const {
        uint64_t words = 0;
        for (int i = 0; i < 4; ++i) words |= uint64_t(bits::load<uint16_t>(b[i] + at)) << 16 * i;
        return words;
    }
    UNLADEN_INLINE __m128 halves_at(int at) const {
        return _mm_cvtph_ps(_mm_cvtsi64_si128(int64_t(words_at(at))));
    }
    // The first (half = 0) or second 16 of 32 nibbles at byte `at`.
    UNLADEN_INLINE __m512i nibbles_at(int at, int half) const {
        return fields(lanes_at(at), 0, 4, 4 * half, 4 * half, 4 * half, 4 * half);
    }
    // The same with a fifth bit from the uint32 at byte `fifth`.
    UNLADEN_INLINE __m512i nibbles_at(int at, int fifth, int half) const {
        const __m512i q = nibbles_at(at, half);
        return _mm512_mask_add_epi8(q, words_at(fifth + 2 * half), q, _mm512_set1_epi8(16));
    }
};

// Codebook entries plus `bias`, chosen by nibbles.
UNLADEN_INLINE __m512i look_up(__m512i q, const int8_t *codebook, int bias) {
    const __m128i values = _mm_add_epi8(load128(codebook), _mm_set1_epi8(char(bias)));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), q);
}

template <class T>
struct Wide;

template <>
struct Wide<Q8_0> {
    static constexpr int bias_log2 = 7;
    static constexpr bool has_min = false;
    static UNLADEN_INLINE __m512i codes(Four w, int half) {
        return _mm512_xor_si512(w.lanes_at(2 + 16 * half), _mm512_set1_epi8(char(0x80)));
    }
    static UNLADEN_INLINE __m128 scales(Four w) { return w.halves_at(0); }
};

template <>
struct Wide<Q4_0> {
    static constexpr int bias_log2 = 3;
    static constexpr bool has_min = false;
    static UNLADEN_INLINE __m512i codes(Four w, int half) { return w.nibbles_at(2, half); }
    static UNLADEN_INLINE __m128 scales(Four w) { return w.halves_at(0); }
};

template <>
struct Wide<Q4_1> {
    static constexpr int bias_log2 = 0;
    static constexpr bool has_min = true;
    static UNLADEN_INLINE __m512i codes(Four w, int half) { return w.nibbles_at(4, half); }
    static UNLADEN_INLINE __m128 scales(Four w) { return w.halves_at(0); }
    static UNLADEN_INLINE __m128 mins(Four w) { return w.halves_at(2); }
};

template <>
struct Wide<Q5_0> {
    static constexpr int bias_log2 = 4;
    static constexpr bool has_min = false;
    static UNLADEN_INLINE __m512i codes(Four w, int half) { return w.nibbles_at(6, 2, half); }
    static UNLADEN_INLINE __m128 scales(Four w) { return w.halves_at(0); }
};

template <>
struct Wide<Q5_1> {
    static constexpr int bias_log2 = 0;
    static constexpr bool has_min = true;
    static UNLADEN_INLINE __m512i codes(Four w, int half) { return w.nibbles_at(8, 4, half); }
    static UNLADEN_INLINE __m128 scales(Four w) { return w.halves_at(0); }
    static UNLADEN_INLINE __m128 mins(Four w) { return w.halves_at(2); }
};

template <>
struct Wide<IQ4_NL> {
    static constexpr int bias_log2 = 7;
    static constexpr bool has_min = false;
    static UNLADEN_INLINE __m512i codes(Four w, int half) {
        return look_up(w.nibbles_at(2, half), quants::kvalues_iq4nl, 128);
    }
    static UNLADEN_INLINE __m128 scales(Four w) { return w.halves_at(0); }
};

template <>
struct Wide<MXFP4> {
    static constexpr int bias_log2 = 4;
    static constexpr bool has_min = false;
    static UNLADEN_INLINE __m512i codes(Four w, int half) {
        return look_up(w.nibbles_at(1, half), quants::kvalues_mxfp4, 16);
    }
    // 2^(e - 128); the two smallest are subnormal.
    static UNLADEN_INLINE __m128 scales(Four w) {
        const __m128i e = _mm_setr_epi32(*w.b[0], *w.b[1], *w.b[2], *w.b[3]);
        const __m128i normal = _mm_slli_epi32(_mm_sub_epi32(e, _mm_set1_epi32(1)), 23);
        return _mm_castsi128_ps(_mm_mask_sllv_epi32(normal,
                                                    _mm_cmplt_epi32_mask(e, _mm_set1_epi32(2)),
                                                    _mm_set1_epi32(0x00200000), e));
    }
};

// --- A block of 256. codes<j>(): numbers j, j + 4, j + 8, j + 12 of its sixteens; scales(): as 16
// words; scale<j>(): the words for pairs of codes<j>(); d(): d and dmin, then anything.

// Word j and every fourth after it, eight times each.
UNLADEN_INLINE __m512i every_fourth(__m256i words, int j) {
    const __m512i pick = _mm512_add_epi16(
        _mm512_inserti64x4(
            _mm512_castsi256_si512(_mm256_setr_m128i(_mm_set1_epi16(0), _mm_set1_epi16(4))),
            _mm256_setr_m128i(_mm_set1_epi16(8), _mm_set1_epi16(12)), 1),
        _mm512_set1_epi16(int16_t(j)));
    return _mm512_permutexvar_epi16(pick, _mm512_castsi256_si512(words));
}

// Q4_K and Q5_K: d, dmin and 12 bytes of eight 6-bit scales and minimums.
struct KHeader {
    __m128i d_dmin;
    __m128i packed;  // bytes: scales 0..3, minimums 0..3, scales 4..7, minimums 4..7

    UNLADEN_INLINE explicit KHeader(const uint8_t *w) : d_dmin(load128(w)) {
        // First 6 bits of bytes 4..11; low and high nibbles of bytes 12..15; and what goes above
        // these: the top 2 bits of bytes 4..11.
        const __m256i bytes = _mm256_permutexvar_epi8(
            _mm256_setr_epi8(4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 12, 13, 14, 15, 0, 0, 0, 0, 0,
                             0, 0, 0, 4, 5, 6, 7, 8, 9, 10, 11),
            _mm256_castsi128_si256(d_dmin));
        const __m256i shifted = _mm256_multishift_epi64_epi8(
            _mm256_setr_epi8(0, 8, 16, 24, 32, 40, 48, 56, 0, 8, 16, 24, 36, 44, 52, 60, 0, 0, 0, 0,
                             0, 0, 0, 0, 2, 10, 18, 26, 34, 42, 50, 58),
            bytes);
        const __m256i parts = _mm256_and_si256(
            shifted, _mm256_setr_epi64x(0x3f3f3f3f3f3f3f3f, 0x0f0f0f0f0f0f0f0f, 0,
                                        0x3030303030303030));
        packed = _mm_or_si128(_mm256_castsi256_si128(parts), _mm256_extracti128_si256(parts, 1));
    }
    // 256 weights in 128 bytes, 64 in 32.
    template <int j>
    static UNLADEN_INLINE __m512i nibbles(const uint8_t *p) {
        constexpr int from = j / 2 * 4;
        const __m512i both = pick_lanes<j % 2, j % 2 + 2>(load512(p), load512(p + 64));
        return fields(both, 0, 4, from, from, from, from);
    }
    UNLADEN_INLINE __m128 d() const { return _mm_cvtph_ps(d_dmin); }
    // Words of the bytes that `pick` says, where it isn't negative.
    UNLADEN_INLINE __m256i words(__m128i pick) const {
        return _mm256_cvtepu8_epi16(_mm_shuffle_epi8(packed, pick));
    }
    UNLADEN_INLINE __m256i scales() const {
        return words(_mm_setr_epi8(0, 0, 1, 1, 2, 2, 3, 3, 8, 8, 9, 9, 10, 10, 11, 11));
    }
    UNLADEN_INLINE __m256i mins() const {
        return words(_mm_setr_epi8(4, 4, 5, 5, 6, 6, 7, 7, 12, 12, 13, 13, 14, 14, 15, 15));
    }
    // Pairs of minimums as four 32-bit lanes.
    UNLADEN_INLINE __m512i tile_mins() const {
        const __m128i pick = _mm_setr_epi8(4, -1, 5, -1, 6, -1, 7, -1, 12, -1, 13, -1, 14, -1, 15, -1);
        return _mm512_zextsi128_si512(_mm_shuffle_epi8(packed, pick));
    }
    // For j = 0 and 1 scales 0, 2, 4, 6; for the others scales 1, 3, 5, 7.
    template <int j>
    UNLADEN_INLINE __m512i scale() const {
        constexpr int odd = j / 2;
        const __m512i pick = _mm512_add_epi8(
            _mm512_inserti64x4(
                _mm512_castsi256_si512(_mm256_setr_m128i(_mm_set1_epi16(0), _mm_set1_epi16(2))),
                _mm256_setr_m128i(_mm_set1_epi16(8), _mm_set1_epi16(10)), 1),
            _mm512_set1_epi16(odd));
        return _mm512_maskz_permutexvar_epi8(0x5555555555555555, pick,
                                             _mm512_castsi128_si512(packed));
    }
};

template <>
struct Wide<Q4_K> : KHeader {
    static constexpr int bias_log2 = 0, sub = 32;
    static constexpr bool has_min = true;
    const uint8_t *q;
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : KHeader(w), q(w + 16) {}
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        return nibbles<j>(q);
    }
};

template <>
struct Wide<Q5_K> : KHeader {
    static constexpr int bias_log2 = 0, sub = 32;
    static constexpr bool has_min = true;
    const uint8_t *q;
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : KHeader(w), q(w + 48) {}
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        constexpr int bit = j / 2;
        const __m512i fifth = lanes(q - 32 + j % 2 * 16);
        return _mm512_or_si512(nibbles<j>(q), fields(fifth, 4, 1, bit, bit + 2, bit + 4, bit + 6));
    }
};

// What the formats with a scale per 16 share.
struct Sixteens {
    static constexpr int sub = 16;
    const uint8_t *w;
    __m256i words;
    UNLADEN_INLINE Sixteens(const uint8_t *block, __m256i scales) : w(block), words(scales) {}
    UNLADEN_INLINE __m256i scales() const { return words; }
    template <int j>
    UNLADEN_INLINE __m512i scale() const {
        return every_fourth(words, j);
    }
    // Two bits of each weight, 128 weights in 32 bytes at `at`.
    template <int j>
    UNLADEN_INLINE __m512i two_bits(int at, int to) const {
        constexpr int bit = j / 2 * 2;
        const __m512i all = load512(w + at);
        const __m512i mine = _mm512_shuffle_i32x4(all, all, j % 2 ? 0xf5 : 0xa0);
        return fields(mine, to, 2, bit, bit + 4, bit, bit + 4);
    }
};

template <>
struct Wide<Q6_K> : Sixteens {
    static constexpr int bias_log2 = 5;
    static constexpr bool has_min = false;
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : Sixteens(w, _mm256_cvtepi8_epi16(load128(w + 192))) {}
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        const __m512i low = pick_lanes<j, j>(load512(w), load512(w + 64));
        return _mm512_or_si512(fields(low, 0, 4, 0, 4, 0, 4), two_bits<j>(128, 4));
    }
    UNLADEN_INLINE __m128 d() const {
        return _mm_cvtph_ps(_mm_cvtsi32_si128(bits::load<uint16_t>(w + 208)));
    }
};

template <>
struct Wide<Q3_K> : Sixteens {
    static constexpr int bias_log2 = 2;
    static constexpr bool has_min = false;
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : Sixteens(w, decode(w + 96)) {}
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        constexpr int bit = j / 2;
        const __m512i third = lanes(w + j % 2 * 16);
        return _mm512_or_si512(two_bits<j>(32, 0),
                               fields(third, 2, 1, bit, bit + 2, bit + 4, bit + 6));
    }
    // Low four bits in the nibbles of eight bytes, then the high two in four.
    static UNLADEN_INLINE __m256i decode(const uint8_t *p) {
        const uint64_t low = bits::load<uint64_t>(p);
        const uint64_t high = bits::load<uint32_t>(p + 8);
        const uint64_t nibble = 0x0f0f0f0f0f0f0f0f, top = 0x3030303030303030;
        // Bits 2 i of the four bytes belong to scales 4 i ... 4 i + 3.
        const uint64_t first = (high << 4 | high << 34) & top;
        const uint64_t second = (high | high << 30) & top;
        const __m128i scale = _mm_set_epi64x(int64_t((low >> 4 & nibble) | second),
                                             int64_t((low & nibble) | first));
        return _mm256_cvtepi8_epi16(_mm_sub_epi8(scale, _mm_set1_epi8(32)));
    }
    UNLADEN_INLINE __m128 d() const {
        return _mm_cvtph_ps(_mm_cvtsi32_si128(bits::load<uint16_t>(w + 108)));
    }
};

template <>
struct Wide<Q2_K> : Sixteens {
    static constexpr int bias_log2 = 0;
    static constexpr bool has_min = true;
    UNLADEN_INLINE explicit Wide(const uint8_t *w)
        : Sixteens(w, _mm256_and_si256(bytes(w), _mm256_set1_epi16(15))) {}
    static UNLADEN_INLINE __m256i bytes(const uint8_t *w) { return _mm256_cvtepu8_epi16(load128(w)); }
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        return two_bits<j>(16, 0);
    }
    UNLADEN_INLINE __m256i mins() const { return _mm256_srli_epi16(bytes(w), 4); }
    UNLADEN_INLINE __m512i tile_mins() const { return _mm512_cvtepu16_epi32(mins()); }
    UNLADEN_INLINE __m128 d() const {
        return _mm_cvtph_ps(_mm_cvtsi32_si128(bits::load<int32_t>(w + 80)));
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
