// IQ2_XXS: 256 weights in 66 bytes, 2.0625 bits each.
#pragma once

#include "backends/cpu/csrc/quants/grid.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (scale + 1/2) / 4 * sign * grid, a scale per 32 weights. Byte 0: d (float16); 2: for each
// 32 weights four grid indices of 8 bits, then one uint32: four sign indices of 7, a scale of 4.
struct IQ2_XXS {
    static constexpr const char *name = "IQ2_XXS";
    static constexpr int block_size = 256, block_bytes = 66;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block);
        for (const uint8_t *p = block + 2; p < block + 66; p += 8) {
            const uint32_t rest = bits::load<uint32_t>(p + 4);
            const float scale = d * (0.5f + float(rest >> 28)) * 0.25f;
            for (int g = 0; g < 4; ++g, y += 8) {
                bits::scale_grid(y, scale, quants::iq2xxs_grid[p[g]],
                                 quants::ksigns64[rest >> 7 * g & 127]);
            }
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
