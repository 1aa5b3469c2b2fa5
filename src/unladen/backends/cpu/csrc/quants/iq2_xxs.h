// IQ2_XXS: 256 weights in 66 bytes, 2.0625 bits each.
#pragma once

#include "backends/cpu/csrc/quants/grid.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (scale + 1/2) / 4 * sign * grid, a scale per 32 weights. Byte 0: d (float16); 2: for each
// 32 weights four grid indices of 8 bits, then one uint32: four sign indices of 7, a scale of 4.
struct IQ2_XXS : SignedGrid<IQ2_XXS> {
    static constexpr const char *name = "IQ2_XXS";
    static constexpr int block_bytes = 66, sub = 32, max_code = 43;
    static constexpr float unit = 0.125f;
    static inline uint64_t scales(const uint8_t *block, int) {
        uint64_t scales = 0;
        for (int s = 0; s < 8; ++s) scales |= uint64_t(block[9 + 8 * s] >> 4) << 8 * s;
        return 2 * scales + bits::ones;
    }
    static inline uint64_t entry(const uint8_t *block, int g) {
        return quants::iq2xxs_grid[block[2 + g / 4 * 8 + g % 4]];
    }
    static inline uint32_t signs(const uint8_t *block, int s) {
        return bits::signs_of(bits::load<uint32_t>(block + 6 + 8 * s));
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
