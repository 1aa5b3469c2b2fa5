// IQ4_XS: 256 weights in 136 bytes, 4.25 bits each.
#pragma once

#include "backends/cpu/csrc/quants/bits.h"
#include "backends/cpu/csrc/quants/tables.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (scale - 32) * codebook[q], a scale per 32 weights. Byte 0: d (float16); 2: the high two
// bits of the scales, one uint16; 4: their low four, in nibbles; 8: q, 32 weights in 16 bytes, byte
// j holds q[j] and q[j + 16].
struct IQ4_XS {
    static constexpr const char *name = "IQ4_XS";
    static constexpr int block_size = 256, block_bytes = 136;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block);
        const unsigned high = bits::load<uint16_t>(block + 2);
        for (int s = 0; s < 8; ++s, y += 32) {
            const int low = block[4 + s / 2] >> s % 2 * 4 & 15;
            uint8_t q[32];
            bits::look_up_nibbles(block + 8 + 16 * s, quants::kvalues_iq4nl, q, q + 16);
            bits::scale<32>(y, d * (int(low | (high >> 2 * s & 3) << 4) - 32), q);
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
