// IQ2_XS: 256 weights in 74 bytes, 2.3125 bits each.
#pragma once

#include "backends/cpu/csrc/quants/grid.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (scale + 1/2) / 4 * sign * grid, a scale per 16 weights. Byte 0: d (float16); 2: a uint16
// for each 8 weights: grid index of 9 bits, sign index of 7; 66: scales, in nibbles.
struct IQ2_XS : SignedGrid<IQ2_XS> {
    static constexpr const char *name = "IQ2_XS";
    static constexpr int block_bytes = 74, sub = 16, max_code = 43;
    static constexpr float unit = 0.125f;
    static inline uint64_t scales(const uint8_t *block, int half) {
        const auto packed = bits::load<uint32_t>(block + 66 + 4 * half);
        return 2 * bits::spread_nibbles(packed) + bits::ones;
    }
    static inline uint64_t entry(const uint8_t *block, int g) {
        return quants::iq2xs_grid[bits::load<uint16_t>(block + 2 + 2 * g) & 511];
    }
    static inline uint32_t signs(const uint8_t *block, int s) {
        uint32_t signs = 0;
        for (int g = 0; g < 4; ++g) {
            const int index = block[3 + 8 * s + 2 * g] >> 1;
            signs |= uint32_t(quants::ksigns_iq2xs[index]) << 8 * g;
        }
        return signs;
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
