// Rows with codes that are nibbles: sixteen codes of one block of 32 and sixteen of another fill a
// register.
#pragma once

#include "backends/cpu/csrc/isa/formats/codes.h"

namespace unladen::cpu::UNLADEN_ISA {

// Codes 0 ... 15 of two blocks, and 16 ... 31.
struct TwoBlocks {
    Bytes32 first, last;

    // From 16 bytes of nibbles of each block.
    template <class W>
    static UNLADEN_INLINE TwoBlocks of(__m256i both) {
        const Bytes32 nibbles = {both};
        return {W::decode(nibbles.field(0, 15)), W::decode(nibbles.field(4, 15))};
    }
};

// The bits of bytes i and i + 1 of each half, as bytes of 16 or 0.
UNLADEN_INLINE Bytes32 spread_bits(__m256i v, int i) {
    const __m256i pick = _mm256_set_epi64x(0x0101010101010101, 0, 0x0101010101010101, 0);
    const __m256i mine = _mm256_shuffle_epi8(v, _mm256_add_epi8(pick, _mm256_set1_epi8(char(i))));
    return Bytes32::where_own_bit(mine).field(0, 16);
}

// The codes of the blocks of 32 at a and b.
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

// Eight times 32 weights, in one block of T after the other.
template <class T>
struct EightBlocks {
    static constexpr int n_each = T::block_size / 32;
    const uint8_t *p;

    UNLADEN_INLINE const uint8_t *block(int i) const { return p + i / n_each * T::block_bytes; }
    UNLADEN_INLINE __m256 scales() const {
        if constexpr (requires { Codes<T>::scales(p); }) {
            return Codes<T>::scales(p);
        } else if constexpr (n_each == 1) {
            return eight_halves(p, T::block_bytes);
        } else {
            const auto d = [this](int i) { return Codes<T>::d(block(i)); };
            return _mm256_setr_ps(d(0), d(1), d(2), d(3), d(4), d(5), d(6), d(7));
        }
    }
    UNLADEN_INLINE Bytes32 codes(int i) const { return codes_of<T>(block(i), i % n_each); }
};

}  // namespace unladen::cpu::UNLADEN_ISA
