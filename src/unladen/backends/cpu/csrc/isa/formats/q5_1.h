// Q5_1: 32 weights in 24 bytes, 6 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"
#include "backends/cpu/csrc/isa/formats/int8.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * q + m. Byte 0: d (float16); 2: m (float16); 4: the fifth bits, one uint32; 8: the low
// four, byte j holds those of q[j] and q[j + 16].
struct Q5_1 {
    static constexpr const char *name = "Q5_1";
    static constexpr int block_size = 32, block_bytes = 24;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block), m = bits::half(block + 2);
        for (int i = 0; i < 32; i += 8) {
            const uint64_t low = bits::field(block + 8 + i % 16, i / 16 * 4, 15);
            bits::each(y + i, low | bits::spread_bits(block[4 + i / 8]) << 4,
                       [d, m](auto q) { return d * q + m; });
        }
    }
};

#if defined(UNLADEN_AVX512)

template <>
struct Fields<Q5_1> : FieldSizes<2, 2, 4, 16> {};

template <>
struct InLanes<Q5_1> {
    static constexpr int bias = 0;
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) { return nibble_line(w, 8, 4, i); }
    static UNLADEN_INLINE __m512 scale(Interleaved w) { return w.half(0); }
    static UNLADEN_INLINE __m512 min(Interleaved w) { return w.half(2); }
};

#else

template <>
struct Codes<Q5_1> : NibbleCodes<Codes<Q5_1>, 8, true> {
    static constexpr bool is_signed = false;
    static constexpr int bias = 0, max_code = 31;
    static constexpr bool has_min = true;
    static float d(const uint8_t *b) { return bits::half(b); }
    static float m(const uint8_t *b) { return bits::half(b + 2); }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
