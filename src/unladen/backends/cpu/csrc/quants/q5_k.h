// Q5_K: 256 weights in 176 bytes, 5.5 bits each.
#pragma once

#include "backends/cpu/csrc/quants/k_scales.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * scale * q - dmin * min, a scale and a min per 32 weights. Byte 0: d (float16); 2: dmin
// (float16); 4: scales and mins; 16: the fifth bits of q, byte j holds those of q[j], q[j + 32],
// ...; 48: the low four, 64 weights in 32 bytes, likewise.
struct Q5_K {
    static constexpr const char *name = "Q5_K";
    static constexpr int block_size = 256, block_bytes = 176;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block), dmin = bits::half(block + 2);
        const uint8_t *fifth = block + 16;
        for (int s = 0; s < 8; ++s, y += 32) {
            const uint8_t *p = block + 48 + s / 2 * 32;
            const float scale = d * bits::k_scale(block + 4, s);
            const float min = dmin * bits::k_min(block + 4, s);
            for (int i = 0; i < 32; i += 8) {
                const uint64_t top = bits::field(fifth + i, s, 1) << 4;
                bits::each(y + i, bits::field(p + i, s % 2 * 4, 15) | top,
                           [=](auto q) { return scale * q - min; });
            }
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
