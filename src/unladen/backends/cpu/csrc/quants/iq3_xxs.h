// IQ3_XXS: 256 weights in 98 bytes, 3.0625 bits each.
#pragma once

#include "backends/cpu/csrc/quants/grid.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (scale + 1/2) / 2 * sign * grid, a scale per 32 weights. Byte 0: d (float16); 2: grid
// indices of 8 bits, each for 4 weights; 66: a uint32 for each 32 weights: four sign indices of 7
// bits, a scale of 4.
struct IQ3_XXS {
    static constexpr const char *name = "IQ3_XXS";
    static constexpr int block_size = 256, block_bytes = 98;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block);
        const uint8_t *q = block + 2;
        for (int s = 0; s < 8; ++s) {
            const uint32_t rest = bits::load<uint32_t>(block + 66 + 4 * s);
            const float scale = d * (0.5f + float(rest >> 28)) * 0.5f;
            for (int g = 0; g < 4; ++g, q += 2, y += 8) {
                bits::scale_grid(y, scale,
                                 bits::join(quants::iq3xxs_grid[q[0]], quants::iq3xxs_grid[q[1]]),
                                 quants::ksigns64[rest >> 7 * g & 127]);
            }
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
