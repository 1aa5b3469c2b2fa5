// IQ3_XXS: 256 weights in 98 bytes, 3.0625 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/grid.h"
#include "backends/cpu/csrc/isa/formats/grid_codes.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (scale + 1/2) / 2 * sign * grid, a scale per 32 weights. Byte 0: d (float16); 2: grid
// indices of 8 bits, each for 4 weights; 66: a uint32 for each 32 weights: four sign indices of 7
// bits, a scale of 4.
struct IQ3_XXS : SignedGrid<IQ3_XXS> {
    static constexpr const char *name = "IQ3_XXS";
    static constexpr int block_bytes = 98, sub = 32, max_code = 62;
    static constexpr float unit = 0.25f;
    static inline uint64_t scales(const uint8_t *block, int) {
        uint64_t scales = 0;
        for (int s = 0; s < 8; ++s) scales |= uint64_t(block[69 + 4 * s] >> 4) << 8 * s;
        return 2 * scales + bits::ones;
    }
    static inline uint64_t entry(const uint8_t *block, int g) {
        const uint8_t *q = block + 2 + 2 * g;
        return bits::join(quants::iq3xxs_grid[q[0]], quants::iq3xxs_grid[q[1]]);
    }
    static inline uint32_t signs(const uint8_t *block, int s) {
        return bits::signs_of(bits::load<uint32_t>(block + 66 + 4 * s));
    }
};

#if defined(UNLADEN_AVX512)

inline constexpr Grid512<uint32_t, 256> iq3xxs_512(quants::iq3xxs_grid,
                                                  {4, 12, 20, 28, 36, 44, 52, 62});

template <>
struct Codes512<IQ3_XXS> : SignedCodes512<IQ3_XXS, iq3xxs_512> {
    UNLADEN_INLINE explicit Codes512(const uint8_t *w) : Codes512(w, load256(w + 66)) {}
    UNLADEN_INLINE Codes512(const uint8_t *w, __m256i rest)
        : SignedCodes512(w, two_words(_mm256_srli_epi32(rest, 28)), with_eighth(sevens(rest)),
                     load512(w + 2)) {}
};

#elif defined(UNLADEN_AVX2)

template <>
struct Codes<IQ3_XXS> : PackedSigns<IQ3_XXS> {
    explicit Codes(const uint8_t *block) : PackedSigns(block, load256(block + 66)) {}
    Signed32 codes(int s) const {
        return with_sign(eight_entries(quants::iq3xxs_grid, b + 2 + 8 * s), s);
    }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
