// IQ2_S: 256 weights in 82 bytes, 2.5625 bits each.
#pragma once

#include "backends/cpu/csrc/quants/grid.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (scale + 1/2) / 4 * sign * grid, a scale per 16 weights. Byte 0: d (float16); 2: the low
// 8 bits of the grid indices; 34: signs; 66: the high 2 bits of the indices; 74: scales, in
// nibbles.
struct IQ2_S {
    static constexpr const char *name = "IQ2_S";
    static constexpr int block_size = 256, block_bytes = 82;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block);
        for (int g = 0; g < 32; ++g, y += 8) {
            const int index = block[2 + g] | (block[66 + g / 4] >> g % 4 * 2 & 3) << 8;
            const int scale = block[74 + g / 4] >> g / 2 % 2 * 4 & 15;
            bits::scale_grid(y, d * (0.5f + scale) * 0.25f, quants::iq2s_grid[index],
                             bits::sign_bytes(block[34 + g]));
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
