// Q5_0: 32 weights in 22 bytes, 5.5 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"
#include "backends/cpu/csrc/isa/formats/int8.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (q - 16). Byte 0: d (float16); 2: the fifth bits, one uint32; 6: the low four, byte j
// holds those of q[j] and q[j + 16].
struct Q5_0 {
    static constexpr const char *name = "Q5_0";
    static constexpr int block_size = 32, block_bytes = 22;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block);
        for (int i = 0; i < 32; i += 8) {
            const uint64_t low = bits::field(block + 6 + i % 16, i / 16 * 4, 15);
            bits::each(y + i, low | bits::spread_bits(block[2 + i / 8]) << 4,
                       [d](auto q) { return d * (q - 16); });
        }
    }
};

#if defined(UNLADEN_AVX512)

template <>
struct Fields<Q5_0> : FieldSizes<2, 4, 16> {};

template <>
struct InLanes<Q5_0> {
    static constexpr int bias = 16;
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) { return nibble_line(w, 6, 2, i); }
    static UNLADEN_INLINE __m512 scale(Interleaved w) { return w.half(0); }
};

#else

template <>
struct Codes<Q5_0> : NibbleCodes<Codes<Q5_0>, 6, true> {
    static constexpr bool is_signed = false;
    static constexpr int bias = 16, max_code = 31;
    static constexpr bool has_min = false;
    static float d(const uint8_t *b) { return bits::half(b); }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
