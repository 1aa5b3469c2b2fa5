// Wide<T> of the formats with grids. Codes are the weights' sizes; negative<j>() says which weights
// are below zero, and is applied to the activations. IQ1's codes have a bias instead.
#pragma once

#include "backends/cpu/csrc/isa/linear_grid.h"
#include "backends/cpu/csrc/isa/linear_grid_bits.h"

namespace unladen::cpu::UNLADEN_ISA {

inline constexpr Grid512<uint64_t, 2048> iq1s_512(quants::iq1s_grid, {-1, 0, 1}, 8, iq1_bias);
inline constexpr Grid512<uint64_t, 256> iq2xxs_512(quants::iq2xxs_grid, {8, 25, 43});
inline constexpr Grid512<uint64_t, 512> iq2xs_512(quants::iq2xs_grid, {8, 25, 43});
inline constexpr Grid512<uint64_t, 1024> iq2s_512(quants::iq2s_grid, {8, 25, 43});
inline constexpr Grid512<uint32_t, 256> iq3xxs_512(quants::iq3xxs_grid,
                                                  {4, 12, 20, 28, 36, 44, 52, 62});
inline constexpr Grid512<uint32_t, 512> iq3s_512(quants::iq3s_grid, {1, 3, 5, 7, 9, 11, 13, 15});

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

template <class T>
struct WideGrid {
    static constexpr int bias = 0, sub = T::sub;
    const uint8_t *w;
    __m256i words;

    UNLADEN_INLINE WideGrid(const uint8_t *block, __m256i s) : w(block), words(odd_scales(s)) {}
    UNLADEN_INLINE __m256i scales() const { return words; }
    template <int j>
    UNLADEN_INLINE __m512i scale() const {
        return every_fourth(words, j);
    }
    UNLADEN_INLINE __m128 d() const { return _mm_set_ss(T::unit * T::d(w)); }
};

template <class T, const auto &grid>
struct WideSigned : WideGrid<T> {
    Signs minus;
    Entries entries;
    template <class... Masks>
    UNLADEN_INLINE WideSigned(const uint8_t *block, __m256i s, __m256i signs, __m512i q,
                              Masks... masks)
        : WideGrid<T>(block, s), minus(signs), entries(grid, q, masks...) {}
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        return entries.codes<j>(grid);
    }
    template <int j>
    UNLADEN_INLINE __mmask64 negative() const {
        return _cvtu64_mask64(minus.of[j]);
    }
};

template <>
struct Wide<IQ2_XXS> : WideSigned<IQ2_XXS, iq2xxs_512> {
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : Wide(w, load512(w + 2)) {}
    UNLADEN_INLINE Wide(const uint8_t *w, __m512i all)
        : Wide(w, _mm512_cvtepi64_epi32(all), _mm512_cvtepi64_epi32(_mm512_srli_epi64(all, 32))) {}
    UNLADEN_INLINE Wide(const uint8_t *w, __m256i q, __m256i rest)
        : WideSigned(w, two_words(_mm256_srli_epi32(rest, 28)), with_eighth(sevens(rest)),
                     widened(q)) {}
};

template <>
struct Wide<IQ3_XXS> : WideSigned<IQ3_XXS, iq3xxs_512> {
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : Wide(w, load256(w + 66)) {}
    UNLADEN_INLINE Wide(const uint8_t *w, __m256i rest)
        : WideSigned(w, two_words(_mm256_srli_epi32(rest, 28)), with_eighth(sevens(rest)),
                     load512(w + 2)) {}
};

template <>
struct Wide<IQ3_S> : WideSigned<IQ3_S, iq3s_512> {
    UNLADEN_INLINE explicit Wide(const uint8_t *w)
        : WideSigned(w, nibble_pairs(w + 106), load256(w + 74), load512(w + 2),
                     _cvtu64_mask64(bits::load<uint64_t>(w + 66))) {}
};

template <>
struct Wide<IQ2_XS> : WideSigned<IQ2_XS, iq2xs_512> {
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : Wide(w, load512(w + 2)) {}
    UNLADEN_INLINE Wide(const uint8_t *w, __m512i q)
        : WideSigned(w, nibble_words(w + 66),
                     with_eighth(_mm512_cvtepi16_epi8(_mm512_srli_epi16(q, 9))),
                     widened(_mm512_cvtepi16_epi8(q)),
                     _cvtu64_mask64(_mm512_test_epi16_mask(q, _mm512_set1_epi16(256)))) {}
};

template <>
struct Wide<IQ2_S> : WideSigned<IQ2_S, iq2s_512> {
    UNLADEN_INLINE explicit Wide(const uint8_t *w) : Wide(w, bits::load<uint64_t>(w + 66)) {}
    UNLADEN_INLINE Wide(const uint8_t *w, uint64_t top)
        : WideSigned(w, nibble_words(w + 74), load256(w + 34), widened(load256(w + 2)),
                     _cvtu64_mask64(_pext_u64(top, 0x5555555555555555)),
                     _cvtu64_mask64(_pext_u64(top, 0xaaaaaaaaaaaaaaaa))) {}
};

// IQ1's entries, for each group from 8 bits of its index and a byte with three more of them and, in
// bit 3, whether it is moved down: of a block or, in the upper halves, of the next as well.
struct ShiftedEntries {
    Entries entries;
    uint64_t down;
    UNLADEN_INLINE ShiftedEntries(__m512i q, __m512i top)
        : entries(iq1s_512, q, bit(top, 0), bit(top, 1), bit(top, 2)),
          down(_cvtmask64_u64(bit(top, 3))) {}
};

// Codes of 8 * grid + bias +- 1. T has low(block) and top(block), what ShiftedEntries are made of,
// and steps(block).
template <class T>
struct WideShifted : WideGrid<T> {
    static constexpr int bias = iq1_bias;
    ShiftedEntries shifted;
    int half;
    UNLADEN_INLINE explicit WideShifted(const uint8_t *w)
        : WideShifted(w, {widened(Wide<T>::low(w)), widened(Wide<T>::top(w))}, 0) {}
    UNLADEN_INLINE WideShifted(const uint8_t *w, const ShiftedEntries &shifted, int half)
        : WideGrid<T>(w, Wide<T>::steps(w)), shifted(shifted), half(half) {
        this->shifted.down >>= 32 * half;
    }
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        const uint32_t down = _pext_u32(uint32_t(shifted.down), 0x03030303u << 2 * j);
        const __m512i shift =
            _mm512_mask_blend_epi64(_cvtu32_mask8(down), all_bytes(1), all_bytes(-1));
        return _mm512_add_epi8(shifted.entries.codes<j>(iq1s_512, half), shift);
    }

    // This block and the next.
    struct Pair {
        const uint8_t *w;
        ShiftedEntries shifted;
        UNLADEN_INLINE explicit Pair(const uint8_t *w)
            : w(w), shifted(both(Wide<T>::low(w), Wide<T>::low(w + T::block_bytes)),
                            both(Wide<T>::top(w), Wide<T>::top(w + T::block_bytes))) {}
        static UNLADEN_INLINE __m512i both(__m256i first, __m256i second) {
            return _mm512_inserti64x4(widened(first), second, 1);
        }
        template <int i>
        UNLADEN_INLINE Wide<T> block() const {
            return {w + i * T::block_bytes, shifted, i};
        }
    };
};

template <>
struct Wide<IQ1_S> : WideShifted<IQ1_S> {
    using WideShifted::WideShifted;
    static UNLADEN_INLINE __m256i low(const uint8_t *w) { return load256(w + 2); }
    static UNLADEN_INLINE __m256i top(const uint8_t *w) { return threes(load128(w + 34)); }
    static UNLADEN_INLINE __m256i steps(const uint8_t *w) { return iq1_s_steps(w); }
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

}  // namespace unladen::cpu::UNLADEN_ISA
