// IQ3_S: 256 weights in 110 bytes, 3.4375 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/grid.h"
#include "backends/cpu/csrc/isa/formats/grid_codes.h"

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

#if defined(UNLADEN_AVX512)

inline constexpr Grid512<uint32_t, 512> iq3s_512(quants::iq3s_grid, {1, 3, 5, 7, 9, 11, 13, 15});

template <>
struct Codes512<IQ3_S> : SignedCodes512<IQ3_S, iq3s_512> {
    UNLADEN_INLINE explicit Codes512(const uint8_t *w)
        : SignedCodes512(w, nibble_pairs(w + 106), load256(w + 74), load512(w + 2),
                     _cvtu64_mask64(bits::load<uint64_t>(w + 66))) {}
};

#elif defined(UNLADEN_AVX2)

template <>
struct Codes<IQ3_S> : SignedCodes<IQ3_S> {
    alignas(32) uint16_t index[64];
    explicit Codes(const uint8_t *block) : SignedCodes(block, nibble_pairs(block + 106)) {
        const __m256i bit = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048,
                                              4096, 8192, 16384, -32768);
        for (int i = 0; i < 4; ++i) {
            const __m256i ninths = _mm256_set1_epi16(bits::load<int16_t>(b + 66 + 2 * i));
            const __m256i set = _mm256_cmpeq_epi16(_mm256_and_si256(ninths, bit), bit);
            put_indices(index + 16 * i, b + 2 + 16 * i,
                        _mm256_and_si256(set, _mm256_set1_epi16(256)));
        }
        settle(index);
    }
    Signed32 codes(int s) const {
        return {eight_entries(quants::iq3s_grid, index + 8 * s),
                Bytes32::where(bits::load<uint32_t>(b + 74 + 4 * s)).v};
    }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
