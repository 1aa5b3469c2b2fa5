// IQ1_M: 256 weights in 56 bytes, 1.75 bits each.
#pragma once

#include "backends/cpu/csrc/quants/grid.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (2 * scale + 1) * (grid +- 1/8), a scale per 16 weights, the last sign per 8. Byte 0: the
// low 8 bits of the grid indices; 32: a nibble for each 8 weights: the high 3 bits of the index,
// the sign; 48: four uint16 of four scales of 3 bits and 4 bits of d (float16), the lowest first.
struct IQ1_M {
    static constexpr const char *name = "IQ1_M";
    static constexpr int block_size = 256, block_bytes = 56;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const uint8_t *scales = block + 48;
        unsigned half = 0;
        for (int i = 0; i < 4; ++i) half |= scales[2 * i + 1] >> 4 << 4 * i;
        const float d = bits::float_of_half(uint16_t(half));
        for (int g = 0; g < 32; ++g, y += 8) {
            const int rest = block[32 + g / 2] >> g % 2 * 4;
            const int index = block[g] | (rest & 7) << 8;
            const int steps = bits::load<uint16_t>(scales + g / 8 * 2) >> g / 2 % 4 * 3 & 7;
            const float scale = d * (2 * steps + 1);
            const float shift = rest & 8 ? -0.125f : 0.125f;
            bits::each(y, quants::iq1s_grid[index], [=](auto w) { return scale * (w + shift); });
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
