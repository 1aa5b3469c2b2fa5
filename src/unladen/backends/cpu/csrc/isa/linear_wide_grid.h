// Wide<T> of the formats with grids. Codes are the weights' sizes; negative<j>() says which weights
// are below zero, and is applied to the activations. IQ1's codes have a bias instead.
//
// Grids are looked up as bytes in registers, which takes less time than to read entries one by one
// from memory, up to the largest of 2048: an entry is eight numbers of two bits, or four of three,
// that stand for the few values entries consist of.
#pragma once

#include "backends/cpu/csrc/isa/linear_wide256.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class Entry, int n>
struct Planes {
    static constexpr int width = sizeof(Entry) == 8 ? 2 : 3, n_values = 1 << width;
    alignas(64) uint8_t low[n], high[n];
    alignas(64) uint8_t code[64];  // by six bits, of which `width` are the number

    // Codes stand for values times `factor` plus `bias`.
    constexpr Planes(const Entry (&grid)[n], const int8_t (&values)[n_values], int factor = 1,
                     int bias = 0) {
        for (int i = 0; i < n; ++i) {
            unsigned numbers = 0;
            for (int k = 0; k < int(sizeof(Entry)); ++k) {
                unsigned number = 0;
                while (values[number] != int8_t(grid[i] >> 8 * k)) ++number;
                numbers |= number << width * k;
            }
            low[i] = uint8_t(numbers), high[i] = uint8_t(numbers >> 8);
        }
        for (int i = 0; i < 64; ++i) code[i] = uint8_t(values[i % n_values] * factor + bias);
    }
};

constexpr int iq1_bias = 16;
inline constexpr Planes<uint64_t, 2048> iq1s_planes(quants::iq1s_grid, {-1, 0, 1}, 8, iq1_bias);
inline constexpr Planes<uint64_t, 256> iq2xxs_planes(quants::iq2xxs_grid, {8, 25, 43});
inline constexpr Planes<uint64_t, 512> iq2xs_planes(quants::iq2xs_grid, {8, 25, 43});
inline constexpr Planes<uint64_t, 1024> iq2s_planes(quants::iq2s_grid, {8, 25, 43});
inline constexpr Planes<uint32_t, 256> iq3xxs_planes(quants::iq3xxs_grid,
                                                     {4, 12, 20, 28, 36, 44, 52, 62});
inline constexpr Planes<uint32_t, 512> iq3s_planes(quants::iq3s_grid,
                                                   {1, 3, 5, 7, 9, 11, 13, 15});

// The group of eight weights in the 64-bit lane m of codes<j>().
constexpr int group_at(int j, int m) { return 2 * j + m / 2 * 8 + m % 2; }

// Where in two registers of low and high bytes the n_each entries of the groups of codes<j>() are:
// those of group g from place first + g / n_run * step + g % n_run * n_each on.
struct Places {
    alignas(64) uint8_t of[4][64] = {};

    constexpr Places(int n_each, int n_run = 32, int step = 0, int first = 0) {
        for (int i = 0; i < 4 * 8 * n_each; ++i) {
            const int j = i / (8 * n_each), m = i / n_each % 8, e = i % n_each;
            const int g = group_at(j, m);
            const int place = first + g / n_run * step + g % n_run * n_each + e;
            of[j][8 * m + 2 * e] = uint8_t(place), of[j][8 * m + 2 * e + 1] = uint8_t(64 + place);
        }
    }
};

inline constexpr Places in_order(1), upper_in_order(1, 32, 0, 32), fours_in_order(2);
inline constexpr Places each_second(1, 1, 2), four_of_eight(1, 4, 8);

struct Entries {
    __m512i low, high;

    // At up to 64 indices, whose bits from the ninth on are masks.
    template <class Planes, class... Masks>
    UNLADEN_INLINE Entries(const Planes &planes, __m512i q, Masks... masks) {
        constexpr int n = sizeof(planes.low);
        const __mmask64 more[] = {masks..., 0};
        const Planes *at = &planes;
        // Registers don't hold larger ones: compilers would copy them to the stack for every row.
        if constexpr (n > 256) __asm__ volatile("" : "+r"(at));
        low = from_table<n>(at->low, q, more);
        high = from_table<n>(at->high, q, more);
    }
    template <int j, class Entry, int n>
    UNLADEN_INLINE __m512i codes(const Planes<Entry, n> &planes, const Places &places) const {
        const __m512i entries = _mm512_permutex2var_epi8(low, load512(places.of[j]), high);
        // The bits where numbers begin.
        const int64_t from = sizeof(Entry) == 8 ? 0x0e0c0a0806040200 : 0x1916131009060300;
        return _mm512_permutexvar_epi8(
            _mm512_multishift_epi64_epi8(_mm512_set1_epi64(from), entries), load512(planes.code));
    }
};

// Whether bit i of each byte is set.
UNLADEN_INLINE __mmask64 bit(__m512i bytes, int i) {
    return _mm512_test_epi8_mask(bytes, all_bytes(1 << i));
}
UNLADEN_INLINE __m512i widened(__m256i v) { return _mm512_zextsi256_si512(v); }

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

template <class T, const auto &planes, const Places &places>
struct WideSigned : WideGrid<T> {
    Signs minus;
    Entries entries;
    template <class... Masks>
    UNLADEN_INLINE WideSigned(const uint8_t *block, __m256i s, __m256i signs, __m512i q,
                              Masks... masks)
        : WideGrid<T>(block, s), minus(signs), entries(planes, q, masks...) {}
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        return entries.codes<j>(planes, places);
    }
    template <int j>
    UNLADEN_INLINE __mmask64 negative() const {
        return _cvtu64_mask64(minus.of[j]);
    }
};

template <>
struct Wide<IQ2_XXS> : WideSigned<IQ2_XXS, iq2xxs_planes, four_of_eight> {
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : Wide(w, load512(w + 2)) {}
    UNLADEN_INLINE Wide(const uint8_t *w, __m512i all)
        : WideSigned(w, twice(_mm512_cvtepi64_epi32(_mm512_srli_epi64(all, 60))), signs(all), all) {
    }
    static UNLADEN_INLINE __m256i signs(__m512i all) {
        const __m512i from = _mm512_set1_epi64(0x352e2720);
        return with_eighth(_mm512_cvtepi64_epi32(_mm512_multishift_epi64_epi8(from, all)));
    }
};

template <>
struct Wide<IQ3_XXS> : WideSigned<IQ3_XXS, iq3xxs_planes, fours_in_order> {
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : Wide(w, load256(w + 66)) {}
    UNLADEN_INLINE Wide(const uint8_t *w, __m256i rest)
        : WideSigned(w, twice(_mm256_srli_epi32(rest, 28)), signs(rest), load512(w + 2)) {}
    static UNLADEN_INLINE __m256i signs(__m256i rest) {
        const __m256i from = _mm256_set1_epi64x(0x352e2720150e0700);
        return with_eighth(_mm256_multishift_epi64_epi8(from, rest));
    }
};

template <>
struct Wide<IQ3_S> : WideSigned<IQ3_S, iq3s_planes, fours_in_order> {
    UNLADEN_INLINE explicit Wide(const uint8_t *w)
        : WideSigned(w, nibbles(w + 106), load256(w + 74), load512(w + 2),
                     _cvtu64_mask64(bits::load<uint64_t>(w + 66))) {}
    static UNLADEN_INLINE __m256i nibbles(const uint8_t *p) {
        const uint64_t bytes = bits::spread_nibbles(bits::load<uint32_t>(p));
        return twice(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(int64_t(bytes))));
    }
};

template <>
struct Wide<IQ2_XS> : WideSigned<IQ2_XS, iq2xs_planes, each_second> {
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : Wide(w, load512(w + 2)) {}
    UNLADEN_INLINE Wide(const uint8_t *w, __m512i q)
        : WideSigned(w, nibble_words(w + 66),
                     with_eighth(_mm512_cvtepi16_epi8(_mm512_srli_epi16(q, 9))), q,
                     bit(_mm512_srli_epi16(q, 8), 0)) {}
};

template <>
struct Wide<IQ2_S> : WideSigned<IQ2_S, iq2s_planes, in_order> {
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : Wide(w, top(w + 66)) {}
    UNLADEN_INLINE Wide(const uint8_t *w, __m512i top)
        : WideSigned(w, nibble_words(w + 74), load256(w + 34), widened(load256(w + 2)),
                     bit(top, 0), bit(top, 1)) {}
    // Pairs of bits, each with others above it.
    static UNLADEN_INLINE __m512i top(const uint8_t *p) {
        const __m256i from = _mm256_setr_epi64x(0x0e0c0a0806040200, 0x1e1c1a1816141210,
                                                0x2e2c2a2826242220, 0x3e3c3a3836343230);
        const __m256i all = _mm256_set1_epi64x(bits::load<int64_t>(p));
        return widened(_mm256_multishift_epi64_epi8(from, all));
    }
};

// IQ1's entries, for each group from 8 bits of its index and a byte with three more of them and, in
// bit 3, whether it is moved down: of a block or, in the upper halves, of the next as well.
struct ShiftedEntries {
    Entries entries;
    uint64_t down;
    UNLADEN_INLINE ShiftedEntries(__m512i q, __m512i top)
        : entries(iq1s_planes, q, bit(top, 0), bit(top, 1), bit(top, 2)),
          down(_cvtmask64_u64(bit(top, 3))) {}
};

// Codes of 8 * grid + bias +- 1. T has low(block) and top(block), what ShiftedEntries are made of,
// and steps(block).
template <class T>
struct WideShifted : WideGrid<T> {
    static constexpr int bias = iq1_bias;
    ShiftedEntries shifted;
    const Places &places;
    UNLADEN_INLINE explicit WideShifted(const uint8_t *w)
        : WideShifted(w, {widened(Wide<T>::low(w)), widened(Wide<T>::top(w))}, 0) {}
    UNLADEN_INLINE WideShifted(const uint8_t *w, const ShiftedEntries &shifted, int half)
        : WideGrid<T>(w, Wide<T>::steps(w)), shifted(shifted),
          places(half ? upper_in_order : in_order) {
        this->shifted.down >>= 32 * half;
    }
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        const uint32_t down = _pext_u32(uint32_t(shifted.down), 0x03030303u << 2 * j);
        const __m512i shift =
            _mm512_mask_blend_epi64(_cvtu32_mask8(down), all_bytes(1), all_bytes(-1));
        return _mm512_add_epi8(shifted.entries.codes<j>(iq1s_planes, places), shift);
    }

    // This block and the next.
    struct Two {
        const uint8_t *w;
        ShiftedEntries shifted;
        UNLADEN_INLINE explicit Two(const uint8_t *w)
            : w(w), shifted(both(Wide<T>::low(w), Wide<T>::low(w + T::block_bytes)),
                            both(Wide<T>::top(w), Wide<T>::top(w + T::block_bytes))) {}
        static UNLADEN_INLINE __m512i both(__m256i first, __m256i second) {
            return _mm512_inserti64x4(widened(first), second, 1);
        }
        UNLADEN_INLINE Wide<T> first() const { return {w, shifted, 0}; }
        UNLADEN_INLINE Wide<T> second() const { return {w + T::block_bytes, shifted, 1}; }
    };
};

template <>
struct Wide<IQ1_S> : WideShifted<IQ1_S> {
    using WideShifted::WideShifted;
    static UNLADEN_INLINE __m256i low(const uint8_t *w) { return load256(w + 2); }
    static UNLADEN_INLINE __m256i top(const uint8_t *w) {
        // For each group the bits of two words from here on.
        const __m256i index = _mm256_set1_epi64x(0x1916131009060300);
        const __m256i sign = _mm256_set1_epi64x(0x1c1c1c1c0c0c0c0c);
        const __m256i rest = _mm256_cvtepu32_epi64(load128(w + 34));
        const __m256i eight = _mm256_set1_epi8(8);
        return _mm256_ternarylogic_epi32(_mm256_multishift_epi64_epi8(index, rest),
                                         _mm256_multishift_epi64_epi8(sign, rest), eight, 0xd8);
    }
    static UNLADEN_INLINE __m256i steps(const uint8_t *w) {
        const __m256i s = _mm256_cvtepu16_epi32(_mm_srli_epi16(load128(w + 34), 12));
        return twice(_mm256_and_si256(s, _mm256_set1_epi32(7)));
    }
};

template <>
struct Wide<IQ1_M> : WideShifted<IQ1_M> {
    using WideShifted::WideShifted;
    static UNLADEN_INLINE __m256i low(const uint8_t *w) { return load256(w); }
    static UNLADEN_INLINE __m256i top(const uint8_t *w) {
        const __m256i words = _mm256_cvtepu8_epi16(load128(w + 32));
        return _mm256_or_si256(words, _mm256_slli_epi16(words, 4));
    }
    static UNLADEN_INLINE __m256i steps(const uint8_t *w) {
        const __m128i from = _mm_setr_epi8(0, 3, 6, 9, 16, 19, 22, 25, 32, 35, 38, 41, 48, 51, 54,
                                           57);
        const __m128i packed = _mm_set1_epi64x(bits::load<int64_t>(w + 48));
        return _mm256_cvtepu8_epi16(
            _mm_and_si128(_mm_multishift_epi64_epi8(from, packed), _mm_set1_epi8(7)));
    }
    UNLADEN_INLINE __m128 d() const {
        const uint64_t half = _pext_u64(bits::load<uint64_t>(w + 48), 0xf000f000f000f000);
        return _mm_set_ss(IQ1_M::unit * bits::float_of_half(uint16_t(half)));
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
