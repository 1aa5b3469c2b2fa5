// Q1_0: 128 weights in 18 bytes, 1.125 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d where a bit is set, -d where not. Byte 0: d (float16); 2: the bits, in order.
struct Q1_0 {
    static constexpr const char *name = "Q1_0";
    static constexpr int block_size = 128, block_bytes = 18;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block);
        for (int i = 0; i < 16; ++i) {
            bits::each(y + 8 * i, bits::spread_bits(block[2 + i]),
                       [d](auto bit) { return d * (2 * bit - 1); });
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
