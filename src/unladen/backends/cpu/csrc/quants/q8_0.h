// Q8_0: 32 weights in 34 bytes, 8.5 bits each.
#pragma once

#include "backends/cpu/csrc/quants/bits.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * q. Byte 0: d (float16); 2: q (int8).
struct Q8_0 {
    static constexpr const char *name = "Q8_0";
    static constexpr int block_size = 32, block_bytes = 34;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        bits::scale<32>(y, bits::half(block), block + 2);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
