// Q4_0: 32 weights in 18 bytes, 4.5 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"
#include "backends/cpu/csrc/isa/formats/int8.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (q - 8). Byte 0: d (float16); 2: q, byte j holds q[j] and q[j + 16].
struct Q4_0 {
    static constexpr const char *name = "Q4_0";
    static constexpr int block_size = 32, block_bytes = 18;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block);
        const auto weigh = [d](auto q) { return d * (q - 8); };
        for (int i = 0; i < 16; i += 8) {
            bits::each(y + i, bits::field(block + 2 + i, 0, 15), weigh);
            bits::each(y + 16 + i, bits::field(block + 2 + i, 4, 15), weigh);
        }
    }
};

#if defined(UNLADEN_AVX512)

template <>
inline constexpr int rest_bytes_of<Q4_0> = 4;

template <>
struct Fields<Q4_0> : FieldSizes<2, 16> {};

template <>
struct InLanes<Q4_0> {
    static constexpr int bias = 8;
    static constexpr bool has_short_scales = true;
    static constexpr size_t rolled_ahead = 4096;  // decoding takes few instructions
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) { return nibble_line(w, 2, i); }
    static UNLADEN_INLINE __m512 scale(Interleaved w) { return w.half(0); }
};

// A divided block: three bits of each code in planes, and the lowest bits of eight lines, one above
// the other, in the rest.
template <>
struct InLanes<Whole<Q4_0>> {
    static constexpr int bias = 8;
    static UNLADEN_INLINE __m512i line(CoarseAndRest w, int i) {
        return with_bits(three_bits(w, i, 1), load512(w.rest), i, 1, 0);
    }
    // Line i's three bits, from bit `to` on.
    static UNLADEN_INLINE __m512i three_bits(Interleaved w, int i, int to) {
        const auto plane = [=](int j) __attribute__((always_inline)) { return w.four(2 + 4 * j); };
        return ThreePlanes::line(plane, i, to);
    }
    static UNLADEN_INLINE void join(const __m512i (&q)[8], __m512i (&planes)[3], __m512i &rest) {
        __m512i high[8];
        rest = _mm512_setzero_si512();
        for (int i = 0; i < 8; ++i) {
            high[i] = shifted(q[i], 1, 3, 0);
            rest = with_bits(rest, q[i], 0, 1, i);
        }
        ThreePlanes::join(high, planes);
    }
};

// Codes are doubled, so that the middle of two codes is a whole number.
template <>
struct InLanes<Coarse<Q4_0>> {
    static constexpr int bias = 16, lacks = 1;
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        return InLanes<Whole<Q4_0>>::three_bits(w, i, 2);
    }
};

#else

template <>
struct Codes<Q4_0> : NibbleCodes<Codes<Q4_0>, 2> {
    static constexpr bool is_signed = false;
    static constexpr int bias = 8, max_code = 15;
    static constexpr bool has_min = false;
    static float d(const uint8_t *b) { return bits::half(b); }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
