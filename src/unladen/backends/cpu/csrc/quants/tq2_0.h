// TQ2_0: 256 weights in 66 bytes, 2.0625 bits each.
#pragma once

#include "backends/cpu/csrc/quants/bits.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (q - 1). Byte 0: q, 128 weights in 32 bytes, byte j holds q[j], q[j + 32], ...; 64: d
// (float16).
struct TQ2_0 {
    static constexpr const char *name = "TQ2_0";
    static constexpr int block_size = 256, block_bytes = 66;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block + 64);
        for (int s = 0; s < 8; ++s, y += 32) {
            const uint8_t *p = block + s / 4 * 32;
            for (int i = 0; i < 32; i += 8) {
                bits::each(y + i, bits::field(p + i, s % 4 * 2, 3),
                           [d](auto q) { return d * (q - 1); });
            }
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
