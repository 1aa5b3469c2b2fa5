// IQ3_S: 256 weights in 110 bytes, 3.4375 bits each.
#pragma once

#include "backends/cpu/csrc/quants/grid.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (2 * scale + 1) * sign * grid, a scale per 32 weights. Byte 0: d (float16); 2: the low 8
// bits of the grid indices, each for 4 weights; 66: their ninth bits; 74: signs; 106: scales, in
// nibbles.
struct IQ3_S : SignedGrid<IQ3_S> {
    static constexpr const char *name = "IQ3_S";
    static constexpr int block_bytes = 110, sub = 32, max_code = 15;
    static constexpr float unit = 1.0f;
    static inline uint64_t scales(const uint8_t *block, int) {
        return 2 * bits::spread_nibbles(bits::load<uint32_t>(block + 106)) + bits::ones;
    }
    static inline uint64_t entry(const uint8_t *block, int g) {
        const uint8_t *q = block + 2 + 2 * g;
        const int ninth = block[66 + g / 4] >> g % 4 * 2;
        return bits::join(quants::iq3s_grid[q[0] | (ninth & 1) << 8],
                          quants::iq3s_grid[q[1] | (ninth & 2) << 7]);
    }
    static inline uint32_t signs(const uint8_t *block, int s) {
        return bits::load<uint32_t>(block + 74 + 4 * s);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
