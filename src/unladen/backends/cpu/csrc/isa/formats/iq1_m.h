// IQ1_M: 256 weights in 56 bytes, 1.75 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/grid.h"
#include "backends/cpu/csrc/isa/formats/grid_codes.h"

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

#if defined(UNLADEN_AVX512)

template <>
struct Codes512<IQ1_M> : ShiftedCodes512<IQ1_M> {
    using ShiftedCodes512::ShiftedCodes512;
    static UNLADEN_INLINE __m256i low(const uint8_t *w) { return load256(w); }
    static UNLADEN_INLINE __m256i top(const uint8_t *w) {
        const __m256i words = _mm256_cvtepu8_epi16(load128(w + 32));
        return _mm256_or_si256(words, _mm256_slli_epi16(words, 4));
    }
    static UNLADEN_INLINE __m256i steps(const uint8_t *w) {
        const uint64_t packed = _pext_u64(bits::load<uint64_t>(w + 48), 0x0fff0fff0fff0fff);
        return _mm256_cvtepu8_epi16(
            _mm_set_epi64x(int64_t(_pdep_u64(packed >> 24, 7 * bits::ones)),
                           int64_t(_pdep_u64(packed, 7 * bits::ones))));
    }
    UNLADEN_INLINE __m128 d() const {
        const uint64_t half = _pext_u64(bits::load<uint64_t>(w + 48), 0xf000f000f000f000);
        return _mm_set_ss(IQ1_M::unit * bits::float_of_half(uint16_t(half)));
    }
};

#elif defined(UNLADEN_AVX2)

template <>
struct Codes<IQ1_M> : ShiftedCodes<IQ1_M> {
    explicit Codes(const uint8_t *block) : ShiftedCodes(block, steps(block + 48)) {
        const __m128i packed = load128(block + 32), mask = _mm_set1_epi8(15);
        const __m128i even = _mm_and_si128(packed, mask);
        const __m128i odd = _mm_and_si128(_mm_srli_epi16(packed, 4), mask);
        const __m256i nibbles = _mm256_setr_m128i(_mm_unpacklo_epi8(even, odd),
                                                  _mm_unpackhi_epi8(even, odd));
        const __m256i top = _mm256_and_si256(nibbles, _mm256_set1_epi8(7));
        put_shifts(_mm256_cmpgt_epi8(nibbles, _mm256_set1_epi8(7)));
        const auto high = [](__m128i bytes) {
            return _mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 8);
        };
        put_indices(index, block, high(_mm256_castsi256_si128(top)));
        put_indices(index + 16, block + 16, high(_mm256_extracti128_si256(top, 1)));
        settle(index);
    }
    Bytes32 codes(int s) const {
        const __m256i pick = _mm256_setr_epi64x(0, bits::ones, 2 * bits::ones, 3 * bits::ones);
        const __m256i all = _mm256_set1_epi32(int32_t(shift[s]));
        return {_mm256_add_epi8(entries(s), _mm256_shuffle_epi8(all, pick))};
    }

private:
    // Steps of three bits, four in a word.
    static __m256i steps(const uint8_t *p) {
        const __m128i packed = _mm_cvtsi64_si128(bits::load<int64_t>(p));
        const __m256i powers = _mm256_set1_epi64x(0x0001000800400200);
        const __m256i up = moved_up(packed, four_times(whole_word, next_word, 0), powers);
        return _mm256_and_si256(_mm256_srli_epi16(up, 9), _mm256_set1_epi16(7));
    }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
