// IQ1_M: 256 weights in 56 bytes, 1.75 bits each.
#pragma once

#include "backends/cpu/csrc/quants/grid.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (2 * scale + 1) * (grid +- 1/8), a scale per 16 weights, the last sign per 8. Byte 0: the
// low 8 bits of the grid indices; 32: a nibble for each 8 weights: the high 3 bits of the index,
// the sign; 48: four uint16 of four scales of 3 bits and 4 bits of d (float16), the lowest first.
struct IQ1_M : ShiftedGrid<IQ1_M> {
    static constexpr const char *name = "IQ1_M";
    static constexpr int block_bytes = 56, sub = 16, max_code = 9;
    static constexpr float unit = 0.125f;
    static inline float d(const uint8_t *block) {
        unsigned half = 0;
        for (int i = 0; i < 4; ++i) half |= block[49 + 2 * i] >> 4 << 4 * i;
        return bits::float_of_half(uint16_t(half));
    }
    static inline uint64_t scales(const uint8_t *block, int half) {
        const auto packed = bits::load<uint32_t>(block + 48 + 4 * half);
        uint64_t scales = 0;
        for (int i = 0; i < 8; ++i) {
            scales |= uint64_t(packed >> (i / 4 * 16 + i % 4 * 3) & 7) << 8 * i;
        }
        return 2 * scales + bits::ones;
    }
    static inline uint64_t entry(const uint8_t *block, int g) {
        return quants::iq1s_grid[block[g] | (block[32 + g / 2] >> g % 2 * 4 & 7) << 8];
    }
    static inline bool is_down(const uint8_t *block, int g) {
        return block[32 + g / 2] >> g % 2 * 4 & 8;
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
