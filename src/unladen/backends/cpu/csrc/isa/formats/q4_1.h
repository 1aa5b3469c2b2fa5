// Q4_1: 32 weights in 20 bytes, 5 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"
#include "backends/cpu/csrc/isa/formats/int8.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * q + m. Byte 0: d (float16); 2: m (float16); 4: q, byte j holds q[j] and q[j + 16].
struct Q4_1 {
    static constexpr const char *name = "Q4_1";
    static constexpr int block_size = 32, block_bytes = 20;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block), m = bits::half(block + 2);
        const auto weigh = [d, m](auto q) { return d * q + m; };
        for (int i = 0; i < 16; i += 8) {
            bits::each(y + i, bits::field(block + 4 + i, 0, 15), weigh);
            bits::each(y + 16 + i, bits::field(block + 4 + i, 4, 15), weigh);
        }
    }
};

#if defined(UNLADEN_AVX512)

template <>
struct Fields<Q4_1> : FieldSizes<2, 2, 16> {};

template <>
struct InLanes<Q4_1> {
    static constexpr int bias = 0;
    static constexpr size_t rolled_ahead = 4096;  // decoding takes few instructions
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) { return nibble_line(w, 4, i); }
    static UNLADEN_INLINE __m512 scale(Interleaved w) { return w.half(0); }
    static UNLADEN_INLINE __m512 min(Interleaved w) { return w.half(2); }
};

#else

template <>
struct Codes<Q4_1> : NibbleCodes<Codes<Q4_1>, 4> {
    static constexpr bool is_signed = false;
    static constexpr int bias = 0, max_code = 15;
    static constexpr bool has_min = true;
    static float d(const uint8_t *b) { return bits::half(b); }
    static float m(const uint8_t *b) { return bits::half(b + 2); }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
