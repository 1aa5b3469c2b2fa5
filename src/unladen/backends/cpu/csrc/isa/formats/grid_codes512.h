// Codes512<T> of the formats with grids. Codes are the weights' magnitudes. negative<j>() says
// which weights are negative; the activations get their signs. IQ1's codes have a bias instead.
#pragma once

#include "backends/cpu/csrc/isa/formats/grid512.h"
#include "backends/cpu/csrc/isa/formats/grid_bits.h"

namespace unladen::cpu::UNLADEN_ISA {

inline constexpr Grid512<uint64_t, 2048> iq1s_512(quants::iq1s_grid, {-1, 0, 1}, 8, iq1_bias);

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
struct GridCodes512 {
    static constexpr int bias = 0, sub = T::sub;
    const uint8_t *w;
    __m256i words;

    UNLADEN_INLINE GridCodes512(const uint8_t *block, __m256i s) : w(block), words(odd_scales(s)) {}
    UNLADEN_INLINE __m256i scales() const { return words; }
    template <int j>
    UNLADEN_INLINE __m512i scale() const {
        return every_fourth(words, j);
    }
    UNLADEN_INLINE __m128 d() const { return _mm_set_ss(T::unit * T::d(w)); }
};

template <class T, const auto &grid>
struct SignedCodes512 : GridCodes512<T> {
    Signs minus;
    Entries entries;
    template <class... Masks>
    UNLADEN_INLINE SignedCodes512(const uint8_t *block, __m256i s, __m256i signs, __m512i q,
                              Masks... masks)
        : GridCodes512<T>(block, s), minus(signs), entries(grid, q, masks...) {}
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        return entries.codes<j>(grid);
    }
    template <int j>
    UNLADEN_INLINE __mmask64 negative() const {
        return _cvtu64_mask64(minus.of[j]);
    }
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
struct ShiftedCodes512 : GridCodes512<T> {
    static constexpr int bias = iq1_bias;
    ShiftedEntries shifted;
    int half;
    UNLADEN_INLINE explicit ShiftedCodes512(const uint8_t *w)
        : ShiftedCodes512(w, {widened(Codes512<T>::low(w)), widened(Codes512<T>::top(w))}, 0) {}
    UNLADEN_INLINE ShiftedCodes512(const uint8_t *w, const ShiftedEntries &shifted, int half)
        : GridCodes512<T>(w, Codes512<T>::steps(w)), shifted(shifted), half(half) {
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
            : w(w), shifted(both(Codes512<T>::low(w), Codes512<T>::low(w + T::block_bytes)),
                            both(Codes512<T>::top(w), Codes512<T>::top(w + T::block_bytes))) {}
        static UNLADEN_INLINE __m512i both(__m256i first, __m256i second) {
            return _mm512_inserti64x4(widened(first), second, 1);
        }
        template <int i>
        UNLADEN_INLINE Codes512<T> block() const {
            return {w + i * T::block_bytes, shifted, i};
        }
    };
};

}  // namespace unladen::cpu::UNLADEN_ISA
