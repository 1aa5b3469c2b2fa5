// Wide<T> of the formats with grids. Codes are the weights' sizes; negative<j>() says which weights
// are below zero, and is applied to the activations. IQ1's codes have a bias instead.
//
// Small grids lie in registers, as two planes of bytes: an entry is eight numbers of two bits, or
// four of three, that stand for the few values entries consist of. Large ones are read from memory.
#pragma once

#include "backends/cpu/csrc/isa/linear_wide256.h"

namespace unladen::cpu::UNLADEN_ISA {

// The group of eight weights in the 64-bit lane m of codes<j>().
constexpr int group_at(int j, int m) { return 2 * j + m / 2 * 8 + m % 2; }

template <class Entry, int n>
struct Planes {
    static constexpr int width = sizeof(Entry) == 8 ? 2 : 3;
    alignas(64) uint8_t low[n], high[n];
    alignas(64) uint8_t value[64];  // by six bits, of which `width` are the number

    constexpr Planes(const Entry (&grid)[n], const uint8_t (&values)[1 << width]) {
        for (int i = 0; i < n; ++i) {
            unsigned numbers = 0;
            for (int k = 0; k < int(sizeof(Entry)); ++k) {
                unsigned number = 0;
                while (values[number] != uint8_t(grid[i] >> 8 * k)) ++number;
                numbers |= number << width * k;
            }
            low[i] = uint8_t(numbers), high[i] = uint8_t(numbers >> 8);
        }
        for (int i = 0; i < 64; ++i) value[i] = values[i % (1 << width)];
    }
};

inline constexpr Planes<uint64_t, 256> iq2xxs_planes(quants::iq2xxs_grid, {8, 25, 43});
inline constexpr Planes<uint32_t, 256> iq3xxs_planes(quants::iq3xxs_grid,
                                                     {4, 12, 20, 28, 36, 44, 52, 62});
inline constexpr Planes<uint32_t, 512> iq3s_planes(quants::iq3s_grid,
                                                   {1, 3, 5, 7, 9, 11, 13, 15});

// Where the bytes of entries lie that make the groups of codes<j>(), of two registers that hold
// low and high bytes: those of group g from place g / n_run * step + g % n_run * n_each on.
struct Places {
    alignas(64) uint8_t of[4][64] = {};

    constexpr Places(int n_each, int n_run, int step) {
        for (int i = 0; i < 4 * 8 * n_each; ++i) {
            const int j = i / (8 * n_each), m = i / n_each % 8, e = i % n_each;
            const int g = group_at(j, m), place = g / n_run * step + g % n_run * n_each + e;
            of[j][8 * m + 2 * e] = uint8_t(place), of[j][8 * m + 2 * e + 1] = uint8_t(64 + place);
        }
    }
};

inline constexpr Places places_of_eights(1, 4, 8), places_of_fours(2, 32, 64);

// Entries of 64 indices.
template <class Entry, int n>
struct PlaneEntries {
    __m512i low, high;
    const uint8_t *values;

    UNLADEN_INLINE PlaneEntries(const Planes<Entry, n> &planes, __m512i q, __mmask64 ninth = 0)
        : low(look_up(q, planes.low, ninth)), high(look_up(q, planes.high, ninth)),
          values(planes.value) {}
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        constexpr bool eights = sizeof(Entry) == 8;
        const Places &places = eights ? places_of_eights : places_of_fours;
        const __m512i entries = _mm512_permutex2var_epi8(low, load512(places.of[j]), high);
        // The bits where numbers begin.
        const int64_t from = eights ? 0x0e0c0a0806040200 : 0x1916131009060300;
        return _mm512_permutexvar_epi8(
            _mm512_multishift_epi64_epi8(_mm512_set1_epi64(from), entries), load512(values));
    }
};

// The 32 indices of a block, for entries in memory.
struct Indices {
    alignas(64) uint16_t of[32];

    UNLADEN_INLINE explicit Indices(__m512i words) { _mm512_store_si512(of, words); }
    template <int j>
    UNLADEN_INLINE __m512i entries(const uint64_t *grid) const {
        const auto at = [&](int m) { return int64_t(grid[of[group_at(j, m)]]); };
        return _mm512_setr_epi64(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7));
    }
};

// Signs of 256 weights, from 32 bytes.
struct Signs {
    alignas(32) uint64_t of[4];

    UNLADEN_INLINE explicit Signs(__m256i bytes) {
        const __m256i order = _mm256_setr_epi16(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11,
                                                15);
        _mm256_store_si256(reinterpret_cast<__m256i *>(of),
                           _mm256_permutexvar_epi16(order, bytes));
    }
};

// Seven signs and, in place of the highest bit, an eighth that makes the number of them even.
UNLADEN_INLINE __m256i with_eighth(__m256i bytes) {
    constexpr uint64_t seven = bit_field(0, 0, 7), parity = 0x7f;
    return _mm256_gf2p8affine_epi64_epi8(bytes, _mm256_set1_epi64x(int64_t(seven | parity)), 0);
}

// 16 nibbles of eight bytes as words.
UNLADEN_INLINE __m256i nibble_words(const uint8_t *p) {
    const __m128i packed = _mm_cvtsi64_si128(bits::load<int64_t>(p)), mask = _mm_set1_epi8(15);
    return _mm256_cvtepu8_epi16(
        _mm_unpacklo_epi8(_mm_and_si128(packed, mask),
                          _mm_and_si128(_mm_srli_epi16(packed, 4), mask)));
}
// Each 32-bit number, below 2^16, as two words.
UNLADEN_INLINE __m256i twice(__m256i v) { return _mm256_or_si256(v, _mm256_slli_epi32(v, 16)); }

template <class T>
struct WideGrid {
    static constexpr int bias = 0, sub = T::sub;
    static constexpr bool has_min = false, below_64 = true;
    const uint8_t *w;
    __m256i words;

    // A scale of 2 s + 1 for each s.
    UNLADEN_INLINE WideGrid(const uint8_t *block, __m256i s)
        : w(block), words(_mm256_add_epi16(_mm256_add_epi16(s, s), _mm256_set1_epi16(1))) {}
    UNLADEN_INLINE __m256i scales() const { return words; }
    template <int j>
    UNLADEN_INLINE __m512i scale() const {
        return every_fourth(words, j);
    }
    UNLADEN_INLINE __m128 d() const { return _mm_set_ss(T::unit * T::d(w)); }
};

template <class T>
struct WideSigned : WideGrid<T> {
    Signs minus;
    UNLADEN_INLINE WideSigned(const uint8_t *block, __m256i s, __m256i signs)
        : WideGrid<T>(block, s), minus(signs) {}
    template <int j>
    UNLADEN_INLINE __mmask64 negative() const {
        return _cvtu64_mask64(minus.of[j]);
    }
};

template <>
struct Wide<IQ2_XXS> : WideSigned<IQ2_XXS> {
    PlaneEntries<uint64_t, 256> entries;
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : Wide(w, load512(w + 2)) {}
    UNLADEN_INLINE Wide(const uint8_t *w, __m512i all)
        : WideSigned(w, twice(_mm512_cvtepi64_epi32(_mm512_srli_epi64(all, 60))), signs(all)),
          entries(iq2xxs_planes, all) {}
    static UNLADEN_INLINE __m256i signs(__m512i all) {
        const __m512i from = _mm512_set1_epi64(0x352e2720);
        return with_eighth(_mm512_cvtepi64_epi32(_mm512_multishift_epi64_epi8(from, all)));
    }
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        return entries.codes<j>();
    }
};

template <>
struct Wide<IQ3_XXS> : WideSigned<IQ3_XXS> {
    PlaneEntries<uint32_t, 256> entries;
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : Wide(w, load256(w + 66)) {}
    UNLADEN_INLINE Wide(const uint8_t *w, __m256i rest)
        : WideSigned(w, twice(_mm256_srli_epi32(rest, 28)), signs(rest)),
          entries(iq3xxs_planes, load512(w + 2)) {}
    static UNLADEN_INLINE __m256i signs(__m256i rest) {
        const __m256i from = _mm256_set1_epi64x(0x352e2720150e0700);
        return with_eighth(_mm256_multishift_epi64_epi8(from, rest));
    }
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        return entries.codes<j>();
    }
};

template <>
struct Wide<IQ3_S> : WideSigned<IQ3_S> {
    PlaneEntries<uint32_t, 512> entries;
    UNLADEN_INLINE explicit Wide(const uint8_t *w)
        : WideSigned(w, nibbles(w + 106), load256(w + 74)),
          entries(iq3s_planes, load512(w + 2), _cvtu64_mask64(bits::load<uint64_t>(w + 66))) {}
    static UNLADEN_INLINE __m256i nibbles(const uint8_t *p) {
        const uint64_t bytes = bits::spread_nibbles(bits::load<uint32_t>(p));
        return twice(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(int64_t(bytes))));
    }
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        return entries.codes<j>();
    }
};

template <>
struct Wide<IQ2_XS> : WideSigned<IQ2_XS> {
    Indices index;
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : Wide(w, load512(w + 2)) {}
    UNLADEN_INLINE Wide(const uint8_t *w, __m512i q)
        : WideSigned(w, nibble_words(w + 66),
                     with_eighth(_mm512_cvtepi16_epi8(_mm512_srli_epi16(q, 9)))),
          index(_mm512_and_si512(q, _mm512_set1_epi16(511))) {}
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        return index.entries<j>(quants::iq2xs_grid);
    }
};

template <>
struct Wide<IQ2_S> : WideSigned<IQ2_S> {
    Indices index;
    UNLADEN_INLINE explicit Wide(const uint8_t *w)
        : WideSigned(w, nibble_words(w + 74), load256(w + 34)), index(indices(w)) {}
    static UNLADEN_INLINE __m512i indices(const uint8_t *w) {
        // The two bits of each index from 64 on end.
        const __m256i from = _mm256_setr_epi64x(0x0e0c0a0806040200, 0x1e1c1a1816141210,
                                                0x2e2c2a2826242220, 0x3e3c3a3836343230);
        const __m256i top = _mm256_and_si256(
            _mm256_multishift_epi64_epi8(from, _mm256_set1_epi64x(bits::load<int64_t>(w + 66))),
            _mm256_set1_epi8(3));
        return _mm512_or_si512(_mm512_cvtepu8_epi16(load256(w + 2)),
                               _mm512_slli_epi16(_mm512_cvtepu8_epi16(top), 8));
    }
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        return index.entries<j>(quants::iq2s_grid);
    }
};

// Codes of 8 (grid + 2) +- 1.
template <class T>
struct WideShifted : WideGrid<T> {
    static constexpr int bias = 16;
    Indices index;
    uint32_t down;  // by groups
    UNLADEN_INLINE WideShifted(const uint8_t *block, __m256i s, __m512i words, __mmask32 down)
        : WideGrid<T>(block, s), index(words), down(_cvtmask32_u32(down)) {}
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        const __m512i grid = index.entries<j>(quants::iq1s_grid);
        const __m512i eights = _mm512_and_si512(_mm512_slli_epi16(grid, 3), _mm512_set1_epi8(-8));
        const __mmask8 minus = _cvtu32_mask8(_pext_u32(down, 0x03030303u << 2 * j));
        const __m512i shift = _mm512_mask_blend_epi64(minus, _mm512_set1_epi8(bias + 1),
                                                      _mm512_set1_epi8(bias - 1));
        return _mm512_add_epi8(eights, shift);
    }
};

template <>
struct Wide<IQ1_S> : WideShifted<IQ1_S> {
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : Wide(w, load128(w + 34)) {}
    UNLADEN_INLINE Wide(const uint8_t *w, __m128i rest) : Wide(w, rest, of_groups(rest)) {}
    UNLADEN_INLINE Wide(const uint8_t *w, __m128i rest, __m512i rests)
        : WideShifted(w, steps(rest), indices(w, rests), _mm512_movepi16_mask(rests)) {}
    static UNLADEN_INLINE __m256i steps(__m128i rest) {
        const __m256i s = _mm256_cvtepu16_epi32(_mm_srli_epi16(rest, 12));
        return twice(_mm256_and_si256(s, _mm256_set1_epi32(7)));
    }
    // Each of eight words four times.
    static UNLADEN_INLINE __m512i of_groups(__m128i words) {
        const __m512i two = _mm512_cvtepu16_epi64(words);
        return _mm512_mullo_epi64(two, _mm512_set1_epi64(0x0001000100010001));
    }
    static UNLADEN_INLINE __m512i indices(const uint8_t *w, __m512i rests) {
        const __m512i from = _mm512_set1_epi64(0x0009000600030000);
        const __m512i top = _mm512_and_si512(_mm512_srlv_epi16(rests, from), _mm512_set1_epi16(7));
        return _mm512_or_si512(_mm512_cvtepu8_epi16(load256(w + 2)), _mm512_slli_epi16(top, 8));
    }
};

template <>
struct Wide<IQ1_M> : WideShifted<IQ1_M> {
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : Wide(w, nibbles(load128(w + 32))) {}
    UNLADEN_INLINE Wide(const uint8_t *w, __m512i rests)
        : WideShifted(w, steps(w + 48), indices(w, rests),
                      _mm512_test_epi16_mask(rests, _mm512_set1_epi16(8))) {}
    // As words.
    static UNLADEN_INLINE __m512i nibbles(__m128i packed) {
        const __m256i words = _mm256_cvtepu8_epi16(packed);
        const __m256i bytes = _mm256_or_si256(words, _mm256_slli_epi16(words, 4));
        return _mm512_cvtepu8_epi16(_mm256_and_si256(bytes, _mm256_set1_epi8(15)));
    }
    static UNLADEN_INLINE __m256i steps(const uint8_t *p) {
        const __m128i from = _mm_setr_epi8(0, 3, 6, 9, 16, 19, 22, 25, 32, 35, 38, 41, 48, 51, 54,
                                           57);
        const __m128i packed = _mm_set1_epi64x(bits::load<int64_t>(p));
        return _mm256_cvtepu8_epi16(
            _mm_and_si128(_mm_multishift_epi64_epi8(from, packed), _mm_set1_epi8(7)));
    }
    static UNLADEN_INLINE __m512i indices(const uint8_t *w, __m512i rests) {
        const __m512i top = _mm512_and_si512(rests, _mm512_set1_epi16(7));
        return _mm512_or_si512(_mm512_cvtepu8_epi16(load256(w)), _mm512_slli_epi16(top, 8));
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
