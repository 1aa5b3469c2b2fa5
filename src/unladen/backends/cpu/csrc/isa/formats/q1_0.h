// Q1_0: 128 weights in 18 bytes, 1.125 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"
#include "backends/cpu/csrc/isa/formats/int8.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d where a bit is set, -d where not. Byte 0: d (float16); 2: the bits, in order.
struct Q1_0 {
    static constexpr const char *name = "Q1_0";
    static constexpr int block_size = 128, block_bytes = 18;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block);
        for (int i = 0; i < 16; ++i) {
            bits::each(y + 8 * i, bits::spread_bits(block[2 + i]),
                       [d](auto bit) { return d * (2 * bit - 1); });
        }
    }
};

// Codes are 2 where a bit is set, 0 where not, with a bias of 1.
#if defined(UNLADEN_AVX512)

template <>
struct Fields<Q1_0> : FieldSizes<2, 16> {};

struct Q10HeaderInLanes {
    static constexpr int bias = 1;
    static UNLADEN_INLINE __m512 scale(Interleaved w) { return w.half(0); }
};

// A line's codes are half a byte of each row.
template <>
struct InLanes<Q1_0> : Q10HeaderInLanes {
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        const __m512i half = down(w.four(2 + i / 8 * 4), i % 8 * 4);
        const __m512i four = _mm512_and_si512(half, _mm512_set1_epi32(15));
        // Bit j goes to bit 1 of byte j.
        return masked(_mm512_mullo_epi32(four, _mm512_set1_epi32(0x00408102)), 2);
    }
};

// Eight lines, one above the other.
template <>
struct InLanes<Planes<Q1_0>> : Q10HeaderInLanes, PlanesOf<2, 8, 1> {
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        return shifted(plane(w, i, 0), i % 8, 1, 1);
    }
    static UNLADEN_INLINE void join(const __m512i (&q)[8], __m512i (&plane)[1]) {
        plane[0] = _mm512_setzero_si512();
        for (int j = 0; j < 8; ++j) plane[0] = with_bits(plane[0], q[j], 1, 1, j);
    }
};

#else

template <>
struct Codes<Q1_0> {
    static constexpr bool is_signed = false;
    static constexpr int bias = 1, max_code = 2;
    static constexpr bool has_min = false;
    static Bytes32 codes(const uint8_t *b, int i) {
        return Bytes32::where(bits::load<uint32_t>(b + 2 + 4 * i)).field(0, 2);
    }
    static float d(const uint8_t *b) { return bits::half(b); }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
