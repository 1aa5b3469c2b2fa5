// IQ1_S: 256 weights in 50 bytes, 1.5625 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/grid.h"
#include "backends/cpu/csrc/isa/formats/grid_codes.h"

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

#if defined(UNLADEN_AVX512)

template <>
struct Codes512<IQ1_S> : ShiftedCodes512<IQ1_S> {
    using ShiftedCodes512::ShiftedCodes512;
    static UNLADEN_INLINE __m256i low(const uint8_t *w) { return load256(w + 2); }
    static UNLADEN_INLINE __m256i top(const uint8_t *w) { return threes(load128(w + 34)); }
    static UNLADEN_INLINE __m256i steps(const uint8_t *w) { return iq1_s_steps(w); }
};

#elif defined(UNLADEN_AVX2)

template <>
struct Codes<IQ1_S> : ShiftedCodes<IQ1_S> {
    explicit Codes(const uint8_t *block) : ShiftedCodes(block, iq1_s_steps(block)) {
        const __m128i rest = load128(block + 34);
        put_shifts(_mm256_cvtepi16_epi32(_mm_srai_epi16(rest, 15)));
        const __m256i powers = _mm256_set1_epi64x(0x0004002001000800);
        for (int half = 0; half < 2; ++half) {
            const __m256i pick = four_times(whole_word, next_word, 4 * half);
            const __m256i high = _mm256_srli_epi16(moved_up(rest, pick, powers), 3);
            put_indices(index + 16 * half, b + 2 + 16 * half,
                        _mm256_and_si256(high, _mm256_set1_epi16(0x700)));
        }
        settle(index);
    }
    Bytes32 codes(int s) const {
        return {_mm256_add_epi8(entries(s), _mm256_set1_epi32(int32_t(shift[s])))};
    }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
