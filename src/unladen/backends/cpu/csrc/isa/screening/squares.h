// Errors of coarse rows, as squares of lengths. Each format that is screened adds those of a block:
// add_squares(to, block, T()).
#pragma once

#include "backends/cpu/csrc/isa/simd/int.h"

namespace unladen::cpu::UNLADEN_ISA {

// Squares of lengths: of the row (`all`), of the error of its coarse codes (`lacking`), and of the
// error after a second look (`left`).
struct Squares {
    double lacking = 0, all = 0, left = 0;
};

// The squares of sixteen words, as eight sums of two.
UNLADEN_INLINE __m256i squares(__m256i words) { return _mm256_madd_epi16(words, words); }
inline int total(__m256i sums) {
    __m128i all = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    all = _mm_add_epi32(all, _mm_unpackhi_epi64(all, all));
    return _mm_cvtsi128_si32(all) + _mm_extract_epi32(all, 1);
}

}  // namespace unladen::cpu::UNLADEN_ISA
