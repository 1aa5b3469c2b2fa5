// Q6_K: 256 weights in 210 bytes, 6.5625 bits each.
#pragma once

#include "backends/cpu/csrc/quants/bits.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * scale * (q - 32), a scale per 16 weights. Byte 0: the low four bits of q, 128 weights in
// 64 bytes, byte j holds those of q[j] and q[j + 64]; 128: the high two, 128 weights in 32 bytes,
// likewise; 192: scales (int8); 208: d (float16).
struct Q6_K {
    static constexpr const char *name = "Q6_K";
    static constexpr int block_size = 256, block_bytes = 210;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block + 208);
        for (int s = 0; s < 16; ++s, y += 16) {
            const uint8_t *low = block + s / 8 * 64 + s % 4 * 16;
            const uint8_t *high = block + 128 + s / 8 * 32 + s % 2 * 16;
            const int low_shift = s % 8 / 4 * 4, high_shift = s % 8 / 2 * 2;
            const float scale = d * int8_t(block[192 + s]);
            for (int i = 0; i < 16; i += 8) {
                const uint64_t top = bits::field(high + i, high_shift, 3) << 4;
                bits::each(y + i, bits::field(low + i, low_shift, 15) | top,
                           [scale](auto q) { return scale * (q - 32); });
            }
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
