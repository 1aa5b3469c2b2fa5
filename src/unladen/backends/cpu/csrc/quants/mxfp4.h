// MXFP4: 32 weights in 17 bytes, 4.25 bits each.
#pragma once

#include "backends/cpu/csrc/quants/bits.h"
#include "backends/cpu/csrc/quants/tables.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = 2^(e - 128) * codebook[q], the codebook being E2M1 doubled (OCP Microscaling formats 1.0).
// Byte 0: e; 1: q, byte j holds q[j] and q[j + 16].
struct MXFP4 {
    static constexpr const char *name = "MXFP4";
    static constexpr int block_size = 32, block_bytes = 17;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const uint32_t e = block[0];
        // The two smallest powers are subnormal.
        const float d = bits::float_of(e < 2 ? 0x00200000u << e : (e - 1) << 23);
        uint8_t q[32];
        bits::look_up_nibbles(block + 1, quants::kvalues_mxfp4, q, q + 16);
        bits::scale<32>(y, d, q);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
