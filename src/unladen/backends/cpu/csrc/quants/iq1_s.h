// IQ1_S: 256 weights in 50 bytes, 1.5625 bits each.
#pragma once

#include "backends/cpu/csrc/quants/grid.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (2 * scale + 1) * (grid +- 1/8), a scale and the last sign per 32 weights. Byte 0: d
// (float16); 2: the low 8 bits of the grid indices; 34: a uint16 for each 32 weights: the high 3
// bits of four indices, a scale of 3, the sign.
struct IQ1_S : ShiftedGrid<IQ1_S> {
    static constexpr const char *name = "IQ1_S";
    static constexpr int block_bytes = 50, sub = 32, max_code = 9;
    static constexpr float unit = 0.125f;
    static inline uint64_t scales(const uint8_t *block, int) {
        uint64_t scales = 0;
        for (int s = 0; s < 8; ++s) scales |= uint64_t(block[35 + 2 * s] >> 4 & 7) << 8 * s;
        return 2 * scales + bits::ones;
    }
    static inline uint64_t entry(const uint8_t *block, int g) {
        const unsigned rest = bits::load<uint16_t>(block + 34 + g / 4 * 2);
        return quants::iq1s_grid[block[2 + g] | (rest >> g % 4 * 3 & 7) << 8];
    }
    static inline bool is_down(const uint8_t *block, int g) {
        return block[35 + g / 4 * 2] >> 7;
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
