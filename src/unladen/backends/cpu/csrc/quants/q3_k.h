// Q3_K: 256 weights in 110 bytes, 3.4375 bits each.
#pragma once

#include "backends/cpu/csrc/quants/bits.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (scale - 32) * (q - 4), a scale per 16 weights. Byte 0: the third bits of q, byte j holds
// those of q[j], q[j + 32], ...; 32: the low two, 128 weights in 32 bytes, likewise; 96: the
// scales, low four bits in the nibbles of 8 bytes, then high two in 4; 108: d (float16).
struct Q3_K {
    static constexpr const char *name = "Q3_K";
    static constexpr int block_size = 256, block_bytes = 110;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block + 108);
        const uint8_t *scales = block + 96;
        for (int s = 0; s < 16; ++s, y += 16) {
            const uint8_t *third = block + s % 2 * 16, *p = third + 32 + s / 8 * 32;
            const int shift = s % 8 / 2 * 2;
            const int low = scales[s % 8] >> s / 8 * 4 & 15;
            const int high = scales[8 + s % 4] >> s / 4 * 2 & 3;
            const float scale = d * ((low | high << 4) - 32);
            for (int i = 0; i < 16; i += 8) {
                const uint64_t top = bits::field(third + i, s / 2, 1) << 2;
                bits::each(y + i, bits::field(p + i, shift, 3) | top,
                           [scale](auto q) { return scale * (q - 4); });
            }
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
