// The integers inside blocks as AVX-512 registers: 64 unsigned codes, the first operand of
// vpdpbusd, in the order of lane_order().
#pragma once

#include "backends/cpu/csrc/isa/simd/int_avx512.h"

namespace unladen::cpu::UNLADEN_ISA {

// Codebook entries plus `bias`, chosen by nibbles.
UNLADEN_INLINE __m512i look_up(__m512i q, const int8_t *codebook, int bias) {
    const __m128i values = _mm_add_epi8(load128(codebook), _mm_set1_epi8(char(bias)));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), q);
}

constexpr int log2_of(int power) { return __builtin_ctz(unsigned(power)); }

// Words j, j + 4, j + 8 and j + 12, eight times each.
UNLADEN_INLINE __m512i every_fourth(__m256i words, int j) {
    const __m512i pick = _mm512_add_epi16(
        _mm512_inserti64x4(
            _mm512_castsi256_si512(_mm256_setr_m128i(_mm_set1_epi16(0), _mm_set1_epi16(4))),
            _mm256_setr_m128i(_mm_set1_epi16(8), _mm_set1_epi16(12)), 1),
        _mm512_set1_epi16(int16_t(j)));
    return _mm512_permutexvar_epi16(pick, _mm512_castsi256_si512(words));
}

// Codes512<T> for blocks of 256 that are decoded row by row, constructed from a block's bytes:
// * codes<j>(): the codes of sixteens j, j + 4, j + 8 and j + 12, below 64, with a bias of `bias`,
//   which is 0 or a power of two;
// * scales(): the scales as 16 words; scale<j>(): the factors of pairs of codes<j>(); d();
// * sub: how many weights share a scale;
// * Pair, if decoding two neighbouring blocks together is faster: its block<i>().
template <class T>
struct Codes512;

}  // namespace unladen::cpu::UNLADEN_ISA
