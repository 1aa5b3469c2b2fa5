// IQ3_S: 256 weights in 110 bytes, 3.4375 bits each.
#pragma once

#include "backends/cpu/csrc/quants/grid.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (2 * scale + 1) * sign * grid, a scale per 32 weights. Byte 0: d (float16); 2: the low 8
// bits of the grid indices, each for 4 weights; 66: their ninth bits; 74: signs; 106: scales, in
// nibbles.
struct IQ3_S {
    static constexpr const char *name = "IQ3_S";
    static constexpr int block_size = 256, block_bytes = 110;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block);
        const uint8_t *q = block + 2;
        for (int g = 0; g < 32; ++g, q += 2, y += 8) {
            const int ninth = block[66 + g / 4] >> g % 4 * 2;
            const int scale = block[106 + g / 8] >> g / 4 % 2 * 4 & 15;
            bits::scale_grid(y, d * (2 * scale + 1),
                             bits::join(quants::iq3s_grid[q[0] | (ninth & 1) << 8],
                                        quants::iq3s_grid[q[1] | (ninth & 2) << 7]),
                             bits::sign_bytes(block[74 + g]));
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
