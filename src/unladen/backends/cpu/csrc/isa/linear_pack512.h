// Panels of int8 with AVX-512: eight rows at a time become the columns of a panel.
#pragma once

#include "backends/cpu/csrc/isa/linear_vec.h"

namespace unladen::cpu::UNLADEN_ISA {

#if defined(__AVX512VNNI__)

// So many k of eight columns fit into sixteen registers.
constexpr int dealt_k = 128;

// Sums of sixteen k of column number lane % 8: in lanes 0 to 7 of v[g] those from k = 16 g on, in
// the others those from 64 + 16 g on.
struct DealtSums {
    __m512i v[4];

    // minus[k / 32][column]: minus the sums of 16.
    void store_pairs_of_16(int16_t *minus) const {
        store(minus, 0, pairs(v[0], v[1]));
        store(minus, 1, pairs(v[2], v[3]));
    }
    // minus[k / 64][column]: minus those of 32.
    void store_pairs_of_32(int16_t *minus) const {
        const __m512i both = pairs(_mm512_add_epi32(v[0], v[1]), _mm512_add_epi32(v[2], v[3]));
        _mm512_storeu_si512(minus, both);
    }
    // times32[k / 16][column]: 32 times minus the sums of 16.
    void store_times_32(int32_t *times32) const {
        auto *to = reinterpret_cast<__m256i *>(times32);
        for (int g = 0; g < 4; ++g) {
            const __m512i minus = _mm512_sub_epi32(_mm512_setzero_si512(), v[g]);
            const __m512i all = _mm512_slli_epi32(minus, 5);
            _mm256_storeu_si256(to + g, _mm512_castsi512_si256(all));
            _mm256_storeu_si256(to + 4 + g, _mm512_extracti64x4_epi64(all, 1));
        }
    }
    // Of 32 number b.
    __m256i block(int b) const {
        const __m512i sums = _mm512_add_epi32(v[b % 2 * 2], v[b % 2 * 2 + 1]);
        return b < 2 ? _mm512_castsi512_si256(sums) : _mm512_extracti64x4_epi64(sums, 1);
    }

private:
    static __m512i pairs(__m512i first, __m512i second) {
        const __m512i zero = _mm512_setzero_si512();
        const __m512i high = _mm512_slli_epi32(_mm512_sub_epi32(zero, second), 16);
        return _mm512_mask_mov_epi16(_mm512_sub_epi32(zero, first), 0xaaaaaaaa, high);
    }
    // The first half for the 32 k of number i, the second for that of number i + 2.
    static void store(int16_t *minus, int i, __m512i pairs) {
        auto *to = reinterpret_cast<__m256i *>(minus) + i;
        _mm256_storeu_si256(to, _mm512_castsi512_si256(pairs));
        _mm256_storeu_si256(to + 2, _mm512_extracti64x4_epi64(pairs, 1));
    }
};

// Writes dealt_k k of a panel's columns, which begin at `rows`, `stride` apart; returns their sums.
inline DealtSums deal(int8_t *panel, const int8_t *rows, size_t stride) {
    __m512i r[16];
    for (int c = 0; c < panel_columns; ++c) {
        r[c] = _mm512_loadu_si512(rows + c * stride);
        r[c + 8] = _mm512_loadu_si512(rows + c * stride + 64);
    }
    transpose(r);
    DealtSums sums;
    auto *to = reinterpret_cast<__m256i *>(panel);
    for (int i = 0; i < 16; ++i) {
        _mm256_storeu_si256(to + i, _mm512_castsi512_si256(r[i]));
        _mm256_storeu_si256(to + 16 + i, _mm512_extracti64x4_epi64(r[i], 1));
        const __m512i before = i % 4 ? sums.v[i / 4] : _mm512_setzero_si512();
        sums.v[i / 4] = _mm512_dpbusd_epi32(before, _mm512_set1_epi8(1), r[i]);
    }
    return sums;
}

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
