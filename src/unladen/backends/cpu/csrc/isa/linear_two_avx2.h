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

// Of blocks of 256 with a scale per 32, which are signed.
template <class T>
struct Row256Two {
    using Row = Row256Pairs;
    using W = Codes<T>;
    static_assert(W::sub == 32 && W::is_signed && !W::has_min);

    template <int C>
    static void dot(float *out, const uint8_t *row, int n_cols, const Row *x, auto ahead) {
        Total total[C];
        for (int b = 0; b < n_cols / 256; ++b, row += T::block_bytes) {
            ahead.ask(row, T::block_bytes);
            const W w(row);
            const Scales scales(w.scales());
            Sums sums[C];
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) sums[c] = Sums::zero();
#pragma GCC unroll 4
            for (int s = 0; s < 8; s += 2) {
                const auto q = TwoBlocks::of<W>(load256(row + W::nibbles_at + 16 * s));
                const __m256i scale = scales.of_two(s);
#pragma GCC unroll 4
                for (int c = 0; c < C; ++c) {
                    const int i = 256 * b + 32 * s;
                    const __m256i first = products_of<T>(q.first, x[c], i);
                    const __m256i last = products_of<T>(q.last, x[c], i + 32);
                    const __m256i both = _mm256_add_epi32(_mm256_madd_epi16(first, scale),
                                                          _mm256_madd_epi16(last, scale));
                    sums[c].v = _mm256_add_epi32(sums[c].v, both);
                }
            }
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) total[c].add(w.d() * x[c].d[b], sums[c]);
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) out[c] = total[c].sum();
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
