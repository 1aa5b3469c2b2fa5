// Wide<T> for blocks of 256, constructed from a block's bytes. codes<j>(): numbers j, j + 4, j + 8
// and j + 12 of its sixteens; scales(): as 16 words; scale<j>(): what multiplies pairs of
// codes<j>() or, unless they are below_64, sums of four; d(): d and dmin, then anything; sub: how
// many weights share a scale; Pair, where two neighbouring blocks together take less: their
// block<i>().
#pragma once

#include "backends/cpu/csrc/isa/linear_wide.h"
#include "backends/cpu/csrc/isa/linear_scales.h"

namespace unladen::cpu::UNLADEN_ISA {

// Word j and every fourth after it, eight times each.
UNLADEN_INLINE __m512i every_fourth(__m256i words, int j) {
    const __m512i pick = _mm512_add_epi16(
        _mm512_inserti64x4(
            _mm512_castsi256_si512(_mm256_setr_m128i(_mm_set1_epi16(0), _mm_set1_epi16(4))),
            _mm256_setr_m128i(_mm_set1_epi16(8), _mm_set1_epi16(12)), 1),
        _mm512_set1_epi16(int16_t(j)));
    return _mm512_permutexvar_epi16(pick, _mm512_castsi256_si512(words));
}

// The 12 bytes of eight 6-bit scales and minimums of one or two blocks of Q4_K or Q5_K as bytes:
// scales 0..3, minimums 0..3, scales 4..7, minimums 4..7, in 128-bit lanes 0 and 1 those of the
// first block, in 2 and 3 those of the second.
UNLADEN_INLINE __m512i unpacked_scales(__m512i headers) {
    // First 6 bits of bytes 4..11; low and high nibbles of bytes 12..15. In the other lane what
    // goes above these: the top 2 bits of bytes 4..11.
    const __m256i pick = _mm256_setr_epi8(4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 12, 13, 14, 15,
                                          0, 0, 0, 0, 0, 0, 0, 0, 4, 5, 6, 7, 8, 9, 10, 11);
    const __m256i down = _mm256_setr_epi32(0, 0, 0, 4, 0, 0, 2, 2);
    const __m256i mask = _mm256_setr_epi64x(0x3f3f3f3f3f3f3f3f, 0x0f0f0f0f0f0f0f0f, 0,
                                            0x3030303030303030);
    const __m512i bytes = _mm512_shuffle_epi8(headers, _mm512_broadcast_i64x4(pick));
    const __m512i parts = _mm512_and_si512(_mm512_srlv_epi32(bytes, _mm512_broadcast_i64x4(down)),
                                           _mm512_broadcast_i64x4(mask));
    return _mm512_or_si512(parts, _mm512_shuffle_i64x2(parts, parts, 0xb1));
}

// 256 weights in 128 bytes, 64 in 32.
struct Nibbles {
    __m512i first, second;
    // Read once: as operands in memory, as compilers like it, they'd be read twice.
    UNLADEN_INLINE explicit Nibbles(const uint8_t *p)
        : first(load512(p)), second(load512(p + 64)) {
        __asm__("" : "+v"(first), "+v"(second));
    }
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        constexpr int from = j / 2 * 4;
        return field(pick_lanes<j % 2, j % 2 + 2>(first, second), from, 4, 0);
    }
};

// Q4_K and Q5_K: d, dmin and packed scales.
struct KHeader {
    __m128i d_dmin;
    __m512i packed;  // unpacked_scales() of this block in all lanes

    UNLADEN_INLINE explicit KHeader(const uint8_t *w)
        : d_dmin(load128(w)), packed(unpacked_scales(_mm512_broadcast_i32x4(d_dmin))) {}
    UNLADEN_INLINE KHeader(const uint8_t *w, __m512i packed) : d_dmin(load128(w)), packed(packed) {}
    UNLADEN_INLINE __m128 d() const { return _mm_cvtph_ps(d_dmin); }
    UNLADEN_INLINE __m256i mins() const {
        return _mm256_shuffle_epi8(_mm512_castsi512_si256(packed), pick_mins());
    }
    // For j = 0 and 1 scales 0, 2, 4, 6; for the others scales 1, 3, 5, 7.
    template <int j>
    UNLADEN_INLINE __m512i scale() const {
        constexpr short none = short(0x8000), from = none | j / 2;
        const __m512i pick = _mm512_inserti64x4(
            _mm512_castsi256_si512(
                _mm256_setr_m128i(_mm_set1_epi16(from), _mm_set1_epi16(from + 2))),
            _mm256_setr_m128i(_mm_set1_epi16(from + 8), _mm_set1_epi16(from + 10)), 1);
        return _mm512_shuffle_epi8(packed, pick);
    }
    // Each minimum twice, as words.
    static UNLADEN_INLINE __m256i pick_mins() {
        return _mm256_setr_epi64x(0x8005800580048004, 0x8007800780068006, 0x800d800d800c800c,
                                  0x800f800f800e800e);
    }
};

// Two neighbouring blocks of Q4_K or Q5_K, T: their headers take as many instructions as one.
template <class T>
struct WidePair {
    const uint8_t *w;
    __m512i packed;

    UNLADEN_INLINE explicit WidePair(const uint8_t *w)
        : w(w), packed(unpacked_scales(_mm512_mask_broadcast_i32x4(
                    _mm512_broadcast_i32x4(load128(w)), 0xff00, load128(w + T::block_bytes)))) {}
    // d and dmin of the first, then of the second.
    UNLADEN_INLINE __m128 d() const {
        return _mm_cvtph_ps(_mm_setr_epi32(bits::load<int32_t>(w),
                                           bits::load<int32_t>(w + T::block_bytes), 0, 0));
    }
    // Each minimum twice as words, the second's in the upper half.
    UNLADEN_INLINE __m512i mins() const {
        return _mm512_shuffle_epi8(packed, _mm512_broadcast_i64x4(KHeader::pick_mins()));
    }
    template <int i>
    UNLADEN_INLINE Wide<T> block() const {
        return {w + i * T::block_bytes, _mm512_shuffle_i32x4(packed, packed, i ? 0xaa : 0)};
    }
};

template <>
struct Wide<Q4_K> : KHeader {
    using Pair = WidePair<Q4_K>;
    static constexpr int bias = 0, sub = 32;
    static constexpr bool has_min = true, below_64 = true;
    Nibbles q;
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : KHeader(w), q(w + 16) {}
    UNLADEN_INLINE Wide(const uint8_t *w, __m512i packed) : KHeader(w, packed), q(w + 16) {}
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        return q.codes<j>();
    }
};

template <>
struct Wide<Q5_K> : KHeader {
    using Pair = WidePair<Q5_K>;
    static constexpr int bias = 0, sub = 32;
    static constexpr bool has_min = true, below_64 = true;
    const uint8_t *fifths;
    Nibbles q;
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : KHeader(w), fifths(w + 16), q(w + 48) {}
    UNLADEN_INLINE Wide(const uint8_t *w, __m512i packed)
        : KHeader(w, packed), fifths(w + 16), q(w + 48) {}
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        constexpr int bit = j / 2;
        const __m512i fifth = lanes(fifths + j % 2 * 16);
        return _mm512_or_si512(q.codes<j>(), fields(fifth, 4, 1, bit, bit + 2, bit + 4, bit + 6));
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
    static constexpr int bias = 32;
    static constexpr bool has_min = false, below_64 = true;
    UNLADEN_INLINE explicit Wide(const uint8_t *w)
        : Sixteens(w, _mm256_cvtepi8_epi16(load128(w + 192))) {}
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
    static constexpr int bias = 4;
    static constexpr bool has_min = false, below_64 = true;
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : Sixteens(w, decode(w + 96)) {}
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        constexpr int bit = j / 2;
        const __m512i third = lanes(w + j % 2 * 16);
        return _mm512_or_si512(two_bits<j>(32, 0),
                               fields(third, 2, 1, bit, bit + 2, bit + 4, bit + 6));
    }
    UNLADEN_INLINE static __m256i decode(const uint8_t *p) {
        const Q3KScales packed(p);
        const __m128i scales = _mm_set_epi64x(int64_t(packed.second), int64_t(packed.first));
        return _mm256_cvtepi8_epi16(_mm_sub_epi8(scales, _mm_set1_epi8(32)));
    }
    UNLADEN_INLINE __m128 d() const {
        return _mm_cvtph_ps(_mm_cvtsi32_si128(bits::load<uint16_t>(w + 108)));
    }
};

template <>
struct Wide<Q2_K> : Sixteens {
    static constexpr int bias = 0;
    static constexpr bool has_min = true, below_64 = true;
    UNLADEN_INLINE explicit Wide(const uint8_t *w)
        : Sixteens(w, _mm256_and_si256(bytes(w), _mm256_set1_epi16(15))) {}
    static UNLADEN_INLINE __m256i bytes(const uint8_t *w) {
        return _mm256_cvtepu8_epi16(load128(w));
    }
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        return two_bits<j>(16, 0);
    }
    UNLADEN_INLINE __m256i mins() const { return _mm256_srli_epi16(bytes(w), 4); }
    UNLADEN_INLINE __m128 d() const {
        return _mm_cvtph_ps(_mm_cvtsi32_si128(bits::load<int32_t>(w + 80)));
    }
};

template <>
struct Wide<IQ4_XS> {
    static constexpr int bias = 128, sub = 32;
    static constexpr bool has_min = false, below_64 = false;
    const uint8_t *w;
    __m256i words;
    UNLADEN_INLINE explicit Wide(const uint8_t *block) : w(block) {
        const __m128i bytes = _mm_cvtsi64_si128(int64_t(iq4_xs_scales(block)));
        words = _mm256_sub_epi16(_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(bytes, bytes)),
                                 _mm256_set1_epi16(32));
    }
    UNLADEN_INLINE __m256i scales() const { return words; }
    // As 32-bit numbers for the lanes of codes<j>() and codes<j + 1>().
    template <int j>
    UNLADEN_INLINE __m512i scale() const {
        return _mm512_srai_epi32(_mm512_slli_epi32(every_fourth(words, j), 16), 16);
    }
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        constexpr int from = j % 2 * 4;
        const __m512i both = pick_lanes<j / 2, j / 2 + 2>(load512(w + 8), load512(w + 72));
        return look_up(fields(both, 0, 4, from, from, from, from), quants::kvalues_iq4nl, 128);
    }
    UNLADEN_INLINE __m128 d() const {
        return _mm_cvtph_ps(_mm_cvtsi32_si128(bits::load<uint16_t>(w)));
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
