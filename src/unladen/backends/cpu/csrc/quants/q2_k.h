// Q2_K: 256 weights in 84 bytes, 2.625 bits each.
#pragma once

#include "backends/cpu/csrc/quants/bits.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * scale * q - dmin * min, a scale and a min per 16 weights. Byte 0: scales in the low
// nibbles, mins in the high ones; 16: q, 128 weights in 32 bytes, byte j holds q[j], q[j + 32],
// ...; 80: d (float16); 82: dmin (float16).
struct Q2_K {
    static constexpr const char *name = "Q2_K";
    static constexpr int block_size = 256, block_bytes = 84;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block + 80), dmin = bits::half(block + 82);
        for (int s = 0; s < 16; ++s, y += 16) {
            const uint8_t *p = block + 16 + s / 8 * 32 + s % 2 * 16;
            const int shift = s % 8 / 2 * 2;
            const float scale = d * (block[s] & 15), min = dmin * (block[s] >> 4);
            for (int i = 0; i < 16; i += 8) {
                bits::each(y + i, bits::field(p + i, shift, 3),
                           [=](auto q) { return scale * q - min; });
            }
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
