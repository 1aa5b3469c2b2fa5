// IQ4_NL: 32 weights in 18 bytes, 4.5 bits each.
#pragma once

#include "backends/cpu/csrc/quants/bits.h"
#include "backends/cpu/csrc/quants/tables.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * codebook[q]. Byte 0: d (float16); 2: q, byte j holds q[j] and q[j + 16].
struct IQ4_NL {
    static constexpr const char *name = "IQ4_NL";
    static constexpr int block_size = 32, block_bytes = 18;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        uint8_t q[32];
        bits::look_up_nibbles(block + 2, quants::kvalues_iq4nl, q, q + 16);
        bits::scale<32>(y, bits::half(block), q);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
