// Rows of codes that are halves of bytes: sixteen of one block of 32 and sixteen of another fill a
// register.
#pragma once

#include "backends/cpu/csrc/isa/linear_codes.h"
#include "backends/cpu/csrc/isa/linear_drive.h"

namespace unladen::cpu::UNLADEN_ISA {

// Codes 0 ... 15 of two blocks, and 16 ... 31.
struct TwoBlocks {
    Bytes32 first, last;

    // Of the 16 bytes of each.
    template <class W>
    static UNLADEN_INLINE TwoBlocks of(__m256i both) {
        const Bytes32 nibbles = {both};
        return {W::decode(nibbles.field(0, 15)), W::decode(nibbles.field(4, 15))};
    }
};

// Bits of two bytes of each half, from byte i on: 16 or 0.
UNLADEN_INLINE Bytes32 spread_bits(__m256i v, int i) {
    const __m256i pick = _mm256_set_epi64x(0x0101010101010101, 0, 0x0101010101010101, 0);
    const __m256i mine = _mm256_shuffle_epi8(v, _mm256_add_epi8(pick, _mm256_set1_epi8(char(i))));
    return Bytes32::where_own_bit(mine).field(0, 16);
}

// Of the blocks of 32 at a and b.
template <class T>
UNLADEN_INLINE TwoBlocks two_blocks(const uint8_t *a, const uint8_t *b) {
    using W = Codes<T>;
    constexpr int at = W::nibbles_at;
    auto q = TwoBlocks::of<W>(_mm256_setr_m128i(load128(a + at), load128(b + at)));
    if constexpr (W::has_fifth) {
        const __m256i fifths = _mm256_setr_m128i(load128(a + at - 4), load128(b + at - 4));
        q.first = q.first.plus(spread_bits(fifths, 0));
        q.last = q.last.plus(spread_bits(fifths, 2));
    }
    return q;
}

// Products with numbers i ... i + 31 of x, two by two.
template <class T, class Pairs>
UNLADEN_INLINE __m256i products_of(Bytes32 codes, const Pairs &x, int i) {
    if constexpr (Codes<T>::is_signed)
        return _mm256_maddubs_epi16(load256(x.size + i),
                                    _mm256_sign_epi8(codes.v, load256(x.q + i)));
    else
        return codes.pairs(x.q + i);
}

// IQ4_XS.
struct RowOfIQ4XS {
    using Row = Row256Pairs;
    using T = IQ4_XS;
    using W = Codes<T>;

    // Scales 0, 2, 4 and 6 in one half, the others in the other, each twice: see iq4_xs_scales. Two
    // bits of each in the upper word of four bytes, four in the next four bytes.
    static UNLADEN_INLINE __m256i scales(const uint8_t *row) {
        const __m256i first = _mm256_set1_epi32(bits::load<int32_t>(row));
        const __m256i second = _mm256_set1_epi32(bits::load<int32_t>(row + 4));
        const __m256i high_at = _mm256_setr_epi32(12, 16, 20, 24, 14, 18, 22, 26);
        const __m256i low_at = _mm256_setr_epi32(0, 8, 16, 24, 4, 12, 20, 28);
        const __m256i high = _mm256_and_si256(_mm256_srlv_epi32(first, high_at),
                                              _mm256_set1_epi32(0x30));
        const __m256i low = _mm256_and_si256(_mm256_srlv_epi32(second, low_at),
                                             _mm256_set1_epi32(15));
        return _mm256_sub_epi16(_mm256_or_si256(high, low), _mm256_set1_epi32(32));
    }

    template <int C>
    static UNLADEN_INLINE void dot(float *out, const uint8_t *row, int n_cols, const Row *x,
                                   auto ahead) {
        Total total[C];
        for (int b = 0; b < n_cols / 256; ++b, row += T::block_bytes) {
            ahead.ask(row, T::block_bytes);
            const __m256i all_scales = scales(row);
            const auto *halves = reinterpret_cast<const __m128i *>(row);
            const __m128 d = _mm_cvtph_ps(_mm_loadl_epi64(halves));  // and what isn't used
            Sums sums[C];
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) sums[c] = Sums::zero();
#pragma GCC unroll 4
            for (int s = 0; s < 8; s += 2) {
                const auto q = TwoBlocks::of<W>(load256(row + W::nibbles_at + 16 * s));
                const __m256i pick = _mm256_set1_epi32(0x01000100 + s / 2 * 0x04040404);
                const __m256i scale = _mm256_shuffle_epi8(all_scales, pick);
#pragma GCC unroll 4
                for (int c = 0; c < C; ++c) {
                    const int i = 256 * b + 32 * s;
                    sums[c].add(products_of<T>(q.first, x[c], i), scale);
                    sums[c].add(products_of<T>(q.last, x[c], i + 32), scale);
                }
            }
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                total[c].add(_mm_mul_ss(d, _mm_load_ss(x[c].d + b)), sums[c]);
            }
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) out[c] = total[c].sum();
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
