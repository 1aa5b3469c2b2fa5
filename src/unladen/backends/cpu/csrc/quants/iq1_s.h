// IQ1_S: 256 weights in 50 bytes, 1.5625 bits each.
#pragma once

#include "backends/cpu/csrc/quants/grid.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (2 * scale + 1) * (grid +- 1/8), a scale and the last sign per 32 weights. Byte 0: d
// (float16); 2: the low 8 bits of the grid indices; 34: a uint16 for each 32 weights: the high 3
// bits of four indices, a scale of 3, the sign.
struct IQ1_S {
    static constexpr const char *name = "IQ1_S";
    static constexpr int block_size = 256, block_bytes = 50;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block);
        for (int g = 0; g < 32; ++g, y += 8) {
            const unsigned rest = bits::load<uint16_t>(block + 34 + g / 4 * 2);
            const unsigned index = block[2 + g] | (rest >> g % 4 * 3 & 7) << 8;
            const float scale = d * (2 * (rest >> 12 & 7) + 1);
            const float shift = rest >> 15 ? -0.125f : 0.125f;
            bits::each(y, quants::iq1s_grid[index], [=](auto w) { return scale * (w + shift); });
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
