// Q4_1: 32 weights in 20 bytes, 5 bits each.
#pragma once

#include "backends/cpu/csrc/quants/bits.h"

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

}  // namespace unladen::cpu::UNLADEN_ISA
