// Q2_0: 64 weights in 18 bytes, 2.25 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (q - 1). Byte 0: d (float16); 2: q, in the order of the bits.
struct Q2_0 {
    static constexpr const char *name = "Q2_0";
    static constexpr int block_size = 64, block_bytes = 18;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block);
        for (int i = 0; i < 8; ++i) {
            uint64_t q = block[2 + 2 * i] | uint64_t(block[3 + 2 * i]) << 32;
            q |= q << 12;
            q |= q << 6;
            bits::each(y + 8 * i, q & 3 * bits::ones, [d](auto w) { return d * (w - 1); });
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
