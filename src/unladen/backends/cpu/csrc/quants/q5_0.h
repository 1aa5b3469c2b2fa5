// Q5_0: 32 weights in 22 bytes, 5.5 bits each.
#pragma once

#include "backends/cpu/csrc/quants/bits.h"

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

}  // namespace unladen::cpu::UNLADEN_ISA
