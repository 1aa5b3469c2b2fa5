// Wide<T> for blocks of 32, four at a time.
#pragma once

#include "backends/cpu/csrc/isa/linear_wide.h"

namespace unladen::cpu::UNLADEN_ISA {

struct Four {
    const uint8_t *b[4];

    // What lies at byte `at` of each block.
    UNLADEN_INLINE __m512i lanes_at(int at) const {
        return lanes(b[0] + at, b[1] + at, b[2] + at, b[3] + at);
    }
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

template <>
struct Wide<Q8_0> {
    static constexpr int bias = 128;
    static constexpr bool has_min = false;
    static UNLADEN_INLINE __m512i codes(Four w, int half) {
        return _mm512_xor_si512(w.lanes_at(2 + 16 * half), _mm512_set1_epi8(char(0x80)));
    }
    static UNLADEN_INLINE __m128 scales(Four w) { return w.halves_at(0); }
};

template <>
struct Wide<Q4_0> {
    static constexpr int bias = 8;
    static constexpr bool has_min = false;
    static UNLADEN_INLINE __m512i codes(Four w, int half) { return w.nibbles_at(2, half); }
    static UNLADEN_INLINE __m128 scales(Four w) { return w.halves_at(0); }
};

template <>
struct Wide<Q4_1> {
    static constexpr int bias = 0;
    static constexpr bool has_min = true;
    static UNLADEN_INLINE __m512i codes(Four w, int half) { return w.nibbles_at(4, half); }
    static UNLADEN_INLINE __m128 scales(Four w) { return w.halves_at(0); }
    static UNLADEN_INLINE __m128 mins(Four w) { return w.halves_at(2); }
};

template <>
struct Wide<Q5_0> {
    static constexpr int bias = 16;
    static constexpr bool has_min = false;
    static UNLADEN_INLINE __m512i codes(Four w, int half) { return w.nibbles_at(6, 2, half); }
    static UNLADEN_INLINE __m128 scales(Four w) { return w.halves_at(0); }
};

template <>
struct Wide<Q5_1> {
    static constexpr int bias = 0;
    static constexpr bool has_min = true;
    static UNLADEN_INLINE __m512i codes(Four w, int half) { return w.nibbles_at(8, 4, half); }
    static UNLADEN_INLINE __m128 scales(Four w) { return w.halves_at(0); }
    static UNLADEN_INLINE __m128 mins(Four w) { return w.halves_at(2); }
};

template <>
struct Wide<IQ4_NL> {
    static constexpr int bias = 128;
    static constexpr bool has_min = false;
    static UNLADEN_INLINE __m512i codes(Four w, int half) {
        return look_up(w.nibbles_at(2, half), quants::kvalues_iq4nl, 128);
    }
    static UNLADEN_INLINE __m128 scales(Four w) { return w.halves_at(0); }
};

template <>
struct Wide<MXFP4> {
    static constexpr int bias = 16;
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

}  // namespace unladen::cpu::UNLADEN_ISA
