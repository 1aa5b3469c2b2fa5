// IQ2_XXS: 256 weights in 66 bytes, 2.0625 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/grid.h"
#include "backends/cpu/csrc/isa/formats/grid_codes.h"

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

#if defined(UNLADEN_AVX512)

inline constexpr Grid512<uint64_t, 256> iq2xxs_512(quants::iq2xxs_grid, {8, 25, 43});

template <>
struct Codes512<IQ2_XXS> : SignedCodes512<IQ2_XXS, iq2xxs_512> {
    UNLADEN_INLINE explicit Codes512(const uint8_t *w) : Codes512(w, load512(w + 2)) {}
    UNLADEN_INLINE Codes512(const uint8_t *w, __m512i all)
        : Codes512(w, _mm512_cvtepi64_epi32(all),
                   _mm512_cvtepi64_epi32(_mm512_srli_epi64(all, 32))) {}
    UNLADEN_INLINE Codes512(const uint8_t *w, __m256i q, __m256i rest)
        : SignedCodes512(w, two_words(_mm256_srli_epi32(rest, 28)), with_eighth(sevens(rest)),
                     widened(q)) {}
};

#elif defined(UNLADEN_AVX2)

template <>
struct Codes<IQ2_XXS> : PackedSigns<IQ2_XXS> {
    explicit Codes(const uint8_t *block)
        : PackedSigns(block, odd_dwords(load256(block + 2), load256(block + 34))) {}
    Signed32 codes(int s) const {
        return with_sign(four_entries(quants::iq2xxs_grid, b + 2 + 8 * s), s);
    }

private:
    static __m256i odd_dwords(__m256i first, __m256i second) {
        const __m256 both = _mm256_shuffle_ps(_mm256_castsi256_ps(first),
                                              _mm256_castsi256_ps(second), 0xdd);
        return _mm256_permute4x64_epi64(_mm256_castps_si256(both), 0xd8);
    }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
