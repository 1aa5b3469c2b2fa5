// Q4_0: 32 weights in 18 bytes, 4.5 bits each.
#pragma once

#include "backends/cpu/csrc/quants/bits.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (q - 8). Byte 0: d (float16); 2: q, byte j holds q[j] and q[j + 16].
struct Q4_0 {
    static constexpr const char *name = "Q4_0";
    static constexpr int block_size = 32, block_bytes = 18;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block);
        const auto weigh = [d](auto q) { return d * (q - 8); };
        for (int i = 0; i < 16; i += 8) {
            bits::each(y + i, bits::field(block + 2 + i, 0, 15), weigh);
            bits::each(y + 16 + i, bits::field(block + 2 + i, 4, 15), weigh);
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
