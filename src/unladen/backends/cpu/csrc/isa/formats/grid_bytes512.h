// With VBMI, grids are tables of bytes: one of the numbers' low eight bits, one of the high eight.
#pragma once

#include "backends/cpu/csrc/isa/formats/grid512.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class Entry, int n>
struct Grid512 : Numbers<Entry, n> {
    using Numbers<Entry, n>::n_values;
    alignas(64) uint8_t low[n] = {}, high[n] = {};
    alignas(64) uint8_t code[64] = {};  // index: six bits, of which `width` are the number

    constexpr Grid512(const Entry (&grid)[n], const int8_t (&values)[n_values], int factor = 1,
                     int bias = 0) : Numbers<Entry, n>(grid, values) {
        for (int i = 0; i < n; ++i) {
            low[i] = uint8_t(this->numbers[i]), high[i] = uint8_t(this->numbers[i] >> 8);
        }
        for (int i = 0; i < 64; ++i) code[i] = uint8_t(values[i % n_values] * factor + bias);
    }
};

// The places, in two registers of low and high bytes, of the entries for the groups of codes<j>();
// the first entry is at `first`.
struct Places {
    alignas(64) uint8_t of[4][64] = {};

    constexpr Places(int n_each, int first = 0) {
        for (int i = 0; i < 4 * 8 * n_each; ++i) {
            const int j = i / (8 * n_each), m = i / n_each % 8, e = i % n_each;
            const int place = first + group_at(j, m) * n_each + e;
            of[j][8 * m + 2 * e] = uint8_t(place), of[j][8 * m + 2 * e + 1] = uint8_t(64 + place);
        }
    }
};

inline constexpr Places eights_in_order(1), upper_eights(1, 32), fours_in_order(2);

// Bytes of a table, whose length is a power of two, at indices: their low eight bits and, from 256
// on, masks of the others.
template <int n>
UNLADEN_INLINE __m512i from_table(const uint8_t *table, __m512i low, const __mmask64 *more) {
    if constexpr (n == 128) {
        return _mm512_permutex2var_epi8(load512(table), low, load512(table + 64));
    } else {
        const __mmask64 upper = n == 256 ? _mm512_movepi8_mask(low) : more[log2_of(n) - 9];
        return _mm512_mask_blend_epi8(upper, from_table<n / 2>(table, low, more),
                                      from_table<n / 2>(table + n / 2, low, more));
    }
}

struct Entries {
    __m512i low, high;

    // The entries at up to 64 indices: q has their low eight bits, `masks` their higher bits.
    template <class Grid, class... Masks>
    UNLADEN_INLINE Entries(const Grid &grid, __m512i q, Masks... masks) {
        constexpr int n = Grid::n_entries;
        const __mmask64 more[] = {masks..., 0};
        const Grid *at = &grid;
        // Hides larger tables from the compiler, which would copy them to the stack for every row.
        // They don't fit into registers.
        if constexpr (n > 256) __asm__ volatile("" : "+r"(at));
        low = from_table<n>(at->low, q, more);
        high = from_table<n>(at->high, q, more);
    }
    // `half`: which half of the entries, if they are those of two blocks.
    template <int j, class Grid>
    UNLADEN_INLINE __m512i codes(const Grid &grid, int half = 0) const {
        const Places &places = Grid::n_each == 2 ? fours_in_order
                               : half            ? upper_eights
                                                 : eights_in_order;
        const __m512i entries = _mm512_permutex2var_epi8(low, load512(places.of[j]), high);
        // The bit where each number begins.
        const int64_t from = Grid::width == 2 ? 0x0e0c0a0806040200 : 0x1916131009060300;
        return _mm512_permutexvar_epi8(
            _mm512_multishift_epi64_epi8(_mm512_set1_epi64(from), entries), load512(grid.code));
    }
};

// The low 28 bits of each dword as four bytes of seven bits. The highest bits are undefined.
UNLADEN_INLINE __m256i sevens(__m256i dwords) {
    return _mm256_multishift_epi64_epi8(_mm256_set1_epi64x(0x352e2720150e0700), dwords);
}

// For each word four bytes: each has three bits of the word and, in bit 3, the highest bit of these
// four. Other bits are undefined.
UNLADEN_INLINE __m256i threes(__m128i words) {
    const __m256i index = _mm256_set1_epi64x(0x1916131009060300);
    const __m256i sign = _mm256_set1_epi64x(0x1c1c1c1c0c0c0c0c);
    const __m256i all = _mm256_cvtepu32_epi64(words), eight = _mm256_set1_epi8(8);
    return _mm256_ternarylogic_epi32(_mm256_multishift_epi64_epi8(index, all),
                                     _mm256_multishift_epi64_epi8(sign, all), eight, 0xd8);
}

}  // namespace unladen::cpu::UNLADEN_ISA
