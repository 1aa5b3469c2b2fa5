// IQ2_S: 256 weights in 82 bytes, 2.5625 bits each.
#pragma once

#include "backends/cpu/csrc/quants/grid.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (scale + 1/2) / 4 * sign * grid, a scale per 16 weights. Byte 0: d (float16); 2: the low
// 8 bits of the grid indices; 34: signs; 66: the high 2 bits of the indices; 74: scales, in
// nibbles.
struct IQ2_S : SignedGrid<IQ2_S> {
    static constexpr const char *name = "IQ2_S";
    static constexpr int block_bytes = 82, sub = 16, max_code = 43;
    static constexpr float unit = 0.125f;
    static inline uint64_t scales(const uint8_t *block, int half) {
        const auto packed = bits::load<uint32_t>(block + 74 + 4 * half);
        return 2 * bits::spread_nibbles(packed) + bits::ones;
    }
    static inline uint64_t entry(const uint8_t *block, int g) {
        return quants::iq2s_grid[block[2 + g] | (block[66 + g / 4] >> g % 4 * 2 & 3) << 8];
    }
    static inline uint32_t signs(const uint8_t *block, int s) {
        return bits::load<uint32_t>(block + 34 + 4 * s);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
