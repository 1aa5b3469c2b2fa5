// IQ2_XS: 256 weights in 74 bytes, 2.3125 bits each.
#pragma once

#include "backends/cpu/csrc/quants/grid.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (scale + 1/2) / 4 * sign * grid, a scale per 16 weights. Byte 0: d (float16); 2: a uint16
// for each 8 weights: grid index of 9 bits, sign index of 7; 66: scales, in nibbles.
struct IQ2_XS {
    static constexpr const char *name = "IQ2_XS";
    static constexpr int block_size = 256, block_bytes = 74;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block);
        for (int g = 0; g < 32; ++g, y += 8) {
            const unsigned q = bits::load<uint16_t>(block + 2 + 2 * g);
            const int scale = block[66 + g / 4] >> g / 2 % 2 * 4 & 15;
            bits::scale_grid(y, d * (0.5f + scale) * 0.25f, quants::iq2xs_grid[q & 511],
                             quants::ksigns64[q >> 9]);
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
