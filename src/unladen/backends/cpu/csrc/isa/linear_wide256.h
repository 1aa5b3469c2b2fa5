// Wide<T> for blocks of 256, constructed from a block's bytes. codes<j>(): numbers j, j + 4, j + 8
// and j + 12 of its sixteens; scales(): as 16 words; scale<j>(): what multiplies pairs of
// codes<j>() or, unless they are below_64, sums of four; d(): d and dmin, then anything; sub: how
// many weights share a scale; Pair, where two neighbouring blocks together take less: their
// block<i>().
#pragma once

#include "backends/cpu/csrc/isa/linear_wide.h"

namespace unladen::cpu::UNLADEN_ISA {

// Word j and every fourth after it, eight times each.
UNLADEN_INLINE __m512i every_fourth(__m256i words, int j) {
    const __m512i pick = _mm512_add_epi16(
        _mm512_inserti64x4(
            _mm512_castsi256_si512(_mm256_setr_m128i(_mm_set1_epi16(0), _mm_set1_epi16(4))),
            _mm256_setr_m128i(_mm_set1_epi16(8), _mm_set1_epi16(12)), 1),
        _mm512_set1_epi16(int16_t(j)));
    return _mm512_permutexvar_epi16(pick, _mm512_castsi256_si512(words));
}

// What the formats with a scale per 16 share.
struct Sixteens {
    static constexpr int sub = 16;
    const uint8_t *w;
    __m256i words;
    UNLADEN_INLINE Sixteens(const uint8_t *block, __m256i scales) : w(block), words(scales) {}
    UNLADEN_INLINE __m256i scales() const { return words; }
    template <int j>
    UNLADEN_INLINE __m512i scale() const {
        return every_fourth(words, j);
    }
    // Two bits of each weight, 128 weights in 32 bytes at `at`.
    template <int j>
    UNLADEN_INLINE __m512i two_bits(int at, int to) const {
        constexpr int bit = j / 2 * 2;
        const __m512i all = load512(w + at);
        const __m512i mine = _mm512_shuffle_i32x4(all, all, j % 2 ? 0xf5 : 0xa0);
        return fields(mine, to, 2, bit, bit + 4, bit, bit + 4);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
