// Across<T> for blocks of 32: w = scale * (code - bias), or, with bias 0, w = scale * code + min.
#pragma once

#include "backends/cpu/csrc/isa/linear_interleave.h"

namespace unladen::cpu::UNLADEN_ISA {

// Where the sum of products of one column with a block's codes begins: at minus the bias times the
// sum of what they are multiplied with, which is less than to multiply and add as floats.
template <class T>
UNLADEN_INLINE __m512i first_products(const int32_t *minus_sum) {
    constexpr unsigned bias = Across<T>::bias, lacks = lacking<Across<T>>();
    static_assert((bias & (bias - 1)) == 0 && (lacks & (lacks - 1)) == 0);
    const __m512i minus = _mm512_set1_epi32(*minus_sum);
    const __m512i sum = bias == 0 ? _mm512_setzero_si512()
                                  : _mm512_slli_epi32(minus, __builtin_ctz(bias));
    if constexpr (lacks == 0)
        return sum;
    else
        return _mm512_sub_epi32(sum, _mm512_slli_epi32(minus, __builtin_ctz(lacks)));
}

// Codes of four bits, from byte `first` of a block on.
UNLADEN_INLINE __m512i nibble_line(Interleaved w, int first, int i) {
    return nibbles(w.four(first + i % 4 * 4), i / 4);
}
// With a fifth bit each, in the four bytes at `fifth`.
UNLADEN_INLINE __m512i nibble_line(Interleaved w, int first, int fifth, int i) {
    // Line i's four bits, one in each byte of a lane, as 16 or 0.
    const __m512i four = _mm512_and_si512(down(w.four(fifth), 4 * i), _mm512_set1_epi32(15));
    const __m512i spread = _mm512_mullo_epi32(four, _mm512_set1_epi32(0x02040810));
    return either(nibble_line(w, first, i), masked(spread, 16));
}

template <>
struct Across<Q8_0> {
    static constexpr int bias = 128;
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        return _mm512_xor_si512(w.four(2 + 4 * i), all_bytes(0x80));
    }
    static UNLADEN_INLINE __m512 scale(Interleaved w) { return w.half(0); }
};

template <>
struct Across<Q4_0> {
    static constexpr int bias = 8;
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) { return nibble_line(w, 2, i); }
    static UNLADEN_INLINE __m512 scale(Interleaved w) { return w.half(0); }
};

template <>
struct Across<Q4_1> {
    static constexpr int bias = 0;
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) { return nibble_line(w, 4, i); }
    static UNLADEN_INLINE __m512 scale(Interleaved w) { return w.half(0); }
    static UNLADEN_INLINE __m512 min(Interleaved w) { return w.half(2); }
};

template <>
struct Across<Q5_0> {
    static constexpr int bias = 16;
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) { return nibble_line(w, 6, 2, i); }
    static UNLADEN_INLINE __m512 scale(Interleaved w) { return w.half(0); }
};

template <>
struct Across<Q5_1> {
    static constexpr int bias = 0;
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) { return nibble_line(w, 8, 4, i); }
    static UNLADEN_INLINE __m512 scale(Interleaved w) { return w.half(0); }
    static UNLADEN_INLINE __m512 min(Interleaved w) { return w.half(2); }
};

template <>
struct Across<IQ4_NL> {
    static constexpr int bias = 128;
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        return look_up(nibble_line(w, 2, i), quants::kvalues_iq4nl, 128);
    }
    static UNLADEN_INLINE __m512 scale(Interleaved w) { return w.half(0); }
};

template <>
struct Across<MXFP4> {
    static constexpr int bias = 16;
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        return look_up(nibble_line(w, 1, i), quants::kvalues_mxfp4, 16);
    }
    static UNLADEN_INLINE __m512 scale(Interleaved w) {
        // 2^(e - 128); the two smallest are subnormal.
        const __m512i e = w.byte(0);
        const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
        const __mmask16 tiny = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
        const __m512i d = _mm512_mask_sllv_epi32(normal, tiny, _mm512_set1_epi32(0x00200000), e);
        return _mm512_castsi512_ps(d);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
