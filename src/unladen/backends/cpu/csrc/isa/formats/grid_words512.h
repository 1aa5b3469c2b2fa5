// Without VBMI, grids are tables of words.
#pragma once

#include "backends/cpu/csrc/isa/formats/grid512.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class Entry, int n>
struct Grid512 : Numbers<Entry, n> {
    using Numbers<Entry, n>::n_values, Numbers<Entry, n>::width;
    uint8_t code[16] = {};  // by number; those of two bits by four times the number as well

    constexpr Grid512(const Entry (&grid)[n], const int8_t (&values)[n_values], int factor = 1,
                      int bias = 0) : Numbers<Entry, n>(grid, values) {
        for (int i = 0; i < 16; ++i) {
            const int number = i < n_values ? i : i >> 2;
            code[i] = uint8_t(values[number] * factor + bias);
        }
    }
};

// The places, in one or two registers of words, of the entries for the groups of codes<j>(): one
// entry for four words, or two entries for two words each.
struct Places {
    alignas(64) uint16_t of[4][32] = {};

    constexpr Places(int n_each) {
        for (int i = 0; i < 4 * 32; ++i) {
            const int j = i / 32, m = i / 4 % 8, e = i % 4 * n_each / 4;
            of[j][i % 32] = uint16_t(group_at(j, m) * n_each + e);
        }
    }
};

inline constexpr Places eights_in_order(1), fours_in_order(2);

// Words of a table, whose length is a power of two, at indices: their low eight bits and, from 512
// on, masks of the others.
template <int n>
UNLADEN_INLINE __m512i from_table(const uint16_t *table, __m512i low, const __mmask32 *more) {
    if constexpr (n == 64) {
        return _mm512_permutex2var_epi16(load512(table), low, load512(table + 32));
    } else {
        const __mmask32 upper = n > 256 ? more[log2_of(n) - 9]
                                        : _mm512_test_epi16_mask(low, _mm512_set1_epi16(n / 2));
        return _mm512_mask_blend_epi16(upper, from_table<n / 2>(table, low, more),
                                       from_table<n / 2>(table + n / 2, low, more));
    }
}

struct Entries {
    __m512i part[2];

    // The entries at up to 64 indices: q has their low eight bits, `masks` their higher bits. The
    // compiler drops a part whose codes aren't used.
    template <class Grid, class... Masks>
    UNLADEN_INLINE Entries(const Grid &grid, __m512i q, Masks... masks) {
        const __mmask32 first[] = {__mmask32(masks)..., 0};
        const __mmask32 second[] = {__mmask32(masks >> 32)..., 0};
        const Grid *at = &grid;
        // Hides larger tables from the compiler, which would copy them to the stack for every row.
        // They don't fit into registers.
        if constexpr (Grid::n_entries > 256) __asm__ volatile("" : "+r"(at));
        part[0] = from_table<Grid::n_entries>(
            at->numbers, _mm512_cvtepu8_epi16(_mm512_castsi512_si256(q)), first);
        part[1] = from_table<Grid::n_entries>(
            at->numbers, _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(q, 1)), second);
    }
    // `half`: which half of the entries, if they are those of two blocks.
    template <int j, class Grid>
    UNLADEN_INLINE __m512i codes(const Grid &grid, int half = 0) const {
        const __m512i code = _mm512_broadcast_i32x4(load128(grid.code));
        if constexpr (Grid::width == 2) {
            const __m512i entries =
                _mm512_permutexvar_epi16(load512(eights_in_order.of[j]), part[half]);
            // Each byte four times, with its numbers at the bits where codes are looked up.
            const __m512i four = _mm512_shuffle_epi8(
                entries, _mm512_set4_epi32(0x09090909, 0x08080808, 0x01010101, 0));
            const __m512i down = _mm512_srlv_epi16(four, _mm512_set1_epi32(4 << 16));
            return _mm512_shuffle_epi8(code, _mm512_and_si512(down, _mm512_set1_epi16(0x0c03)));
        } else {
            const __m512i twice =
                _mm512_permutex2var_epi16(part[0], load512(fours_in_order.of[j]), part[1]);
            const __m512i even = _mm512_srlv_epi16(twice, _mm512_set1_epi32(6 << 16));
            const __m512i odd = _mm512_srlv_epi16(twice, _mm512_set1_epi32(9 << 16 | 3));
            return _mm512_shuffle_epi8(code, either_of(even, odd));
        }
    }

private:
    // The three low bits of the words of both, as bytes.
    static UNLADEN_INLINE __m512i either_of(__m512i even, __m512i odd) {
        return _mm512_ternarylogic_epi32(_mm512_and_si512(even, _mm512_set1_epi16(7)),
                                         _mm512_slli_epi16(odd, 8), _mm512_set1_epi16(0x0700),
                                         0xf8);
    }
};

// The low 28 bits of each dword as four bytes of seven bits. The highest bits are undefined.
UNLADEN_INLINE __m256i sevens(__m256i dwords) {
    const __m256i low = _mm256_set1_epi16(0x00ff), lower = _mm256_set1_epi32(0x0000ffff);
    // The first and the third, the second and the fourth.
    const __m256i even = _mm256_ternarylogic_epi32(lower, dwords, _mm256_slli_epi32(dwords, 2),
                                                   0xca);
    const __m256i odd = _mm256_ternarylogic_epi32(lower, _mm256_slli_epi32(dwords, 1),
                                                  _mm256_slli_epi32(dwords, 3), 0xca);
    return _mm256_ternarylogic_epi32(low, even, odd, 0xca);
}

// For each word four bytes: each has three bits of the word and, in bit 3, the highest bit of these
// four. Other bits are undefined.
UNLADEN_INLINE __m256i threes(__m128i words) {
    const __m256i twice = _mm256_mullo_epi32(_mm256_cvtepu16_epi32(words),
                                             _mm256_set1_epi32(0x10001));
    const __m256i even = _mm256_srlv_epi16(twice, _mm256_set1_epi32(6 << 16));
    const __m256i odd = _mm256_slli_epi16(
        _mm256_srlv_epi16(twice, _mm256_set1_epi32(9 << 16 | 3)), 8);
    const __m256i low = _mm256_set1_epi16(0x00ff);
    const __m256i three = _mm256_ternarylogic_epi32(low, even, odd, 0xca);
    const __m256i sign = _mm256_ternarylogic_epi32(low, _mm256_srli_epi16(twice, 12),
                                                   _mm256_srli_epi16(twice, 4), 0xca);
    return _mm256_ternarylogic_epi32(_mm256_set1_epi8(8), sign, three, 0xca);
}

}  // namespace unladen::cpu::UNLADEN_ISA
