// IQ2_XS: 256 weights in 74 bytes, 2.3125 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/grid.h"
#include "backends/cpu/csrc/isa/formats/grid_codes.h"

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

#if defined(UNLADEN_AVX512)

inline constexpr Grid512<uint64_t, 512> iq2xs_512(quants::iq2xs_grid, {8, 25, 43});

template <>
struct Codes512<IQ2_XS> : SignedCodes512<IQ2_XS, iq2xs_512> {
    UNLADEN_INLINE explicit Codes512(const uint8_t *w) : Codes512(w, load512(w + 2)) {}
    UNLADEN_INLINE Codes512(const uint8_t *w, __m512i q)
        : SignedCodes512(w, nibble_words(w + 66),
                     with_eighth(_mm512_cvtepi16_epi8(_mm512_srli_epi16(q, 9))),
                     widened(_mm512_cvtepi16_epi8(q)),
                     _cvtu64_mask64(_mm512_test_epi16_mask(q, _mm512_set1_epi16(256)))) {}
};

#elif defined(UNLADEN_AVX2)

template <>
struct Codes<IQ2_XS> : PackedSigns<IQ2_XS> {
    alignas(32) uint16_t index[32];
    explicit Codes(const uint8_t *block) : Codes(block, load256(block + 2), load256(block + 34)) {}
    Signed32 codes(int s) const {
        return with_sign(four_entries(quants::iq2xs_grid, index + 4 * s), s);
    }

private:
    Codes(const uint8_t *block, __m256i first, __m256i second)
        : PackedSigns(block, nibble_words(block + 66), sevens(first, second)) {
        const __m256i nine = _mm256_set1_epi16(511);
        __m256i *to = reinterpret_cast<__m256i *>(index);
        _mm256_store_si256(to, _mm256_and_si256(first, nine));
        _mm256_store_si256(to + 1, _mm256_and_si256(second, nine));
        settle(index);
    }
    static __m256i sevens(__m256i first, __m256i second) {
        const __m256i both = _mm256_packus_epi16(_mm256_srli_epi16(first, 9),
                                                 _mm256_srli_epi16(second, 9));
        return _mm256_permute4x64_epi64(both, 0xd8);
    }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
