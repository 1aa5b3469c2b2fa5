// Deals codes of eight rows with AVX2 before they are decoded. This takes fewer and faster shuffles
// than dealing decoded codes.
#pragma once

#include "backends/cpu/csrc/isa/formats/codes.h"
#include "backends/cpu/csrc/isa/products/lines.h"

namespace unladen::cpu::UNLADEN_ISA {

// Dword j of 16 bytes of each of eight rows, the first one's at p.
UNLADEN_INLINE void deal_sixteen(Bytes32 (&to)[4], const uint8_t *p, size_t stride) {
    const auto rows = [=](int r) __attribute__((always_inline)) {
        const __m256i first = _mm256_castsi128_si256(load128(p + r * stride));
        return _mm256_inserti128_si256(first, load128(p + (r + 4) * stride), 1);
    };
    const __m256i a = rows(0), b = rows(1), c = rows(2), d = rows(3);
    const __m256i ab = _mm256_unpacklo_epi32(a, b), cd = _mm256_unpacklo_epi32(c, d);
    const __m256i ab2 = _mm256_unpackhi_epi32(a, b), cd2 = _mm256_unpackhi_epi32(c, d);
    to[0] = {_mm256_unpacklo_epi64(ab, cd)}, to[1] = {_mm256_unpackhi_epi64(ab, cd)};
    to[2] = {_mm256_unpacklo_epi64(ab2, cd2)}, to[3] = {_mm256_unpackhi_epi64(ab2, cd2)};
}

// Dword j of 32 bytes of each of eight rows: as 32 bytes at to + j * apart.
UNLADEN_INLINE void deal_strand(uint8_t *to, size_t apart, const uint8_t *p, size_t stride) {
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4, p += 16) {
        Bytes32 four[4];
        deal_sixteen(four, p, stride);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) four[j].store(to + (i + j) * apart);
    }
}

// Bytes i and j of each dword as words; j < 0: i once more.
UNLADEN_INLINE __m256i two_words(__m256i dwords, int i, int j) {
    const __m256i rows = _mm256_setr_epi32(0, 0x00040004, 0x00080008, 0x000c000c, 0, 0x00040004,
                                           0x00080008, 0x000c000c);
    const int pick = int(0x80008000) + i + ((j < 0 ? i : j) << 16);
    return _mm256_shuffle_epi8(dwords, _mm256_or_si256(rows, _mm256_set1_epi32(pick)));
}
UNLADEN_INLINE void put_half(Pairs &to, int half, __m256i words) {
    _mm256_store_si256(reinterpret_cast<__m256i *>(&to) + half, words);
}

// Dealt strands look like blocks of eight rows, and each block has four codes of each row.
template <class T>
    requires requires { Codes<T>::n_strands; }
struct DealtFirst<T> {
    static constexpr int first = Codes<T>::strands_at, last = first + 32 * Codes<T>::n_strands;

    static void lines(Line *q, int half, const uint8_t *p, size_t stride) {
        alignas(32) uint8_t dealt[8][round_up(last, 32)];
        for (int i = 0; i < 8; ++i) std::memset(dealt[i], 0, first);
        for (int at = first; at < last; at += 32) {
            deal_strand(dealt[0] + at, sizeof dealt[0], p + at, stride);
        }
#pragma GCC unroll 8
        for (int s = 0; s < 8; ++s) {
            for (int i = 0; i < 8; ++i) {
                Codes<T>(dealt[i]).codes(s).store(q[8 * s + i] + 32 * half);
            }
        }
    }
};

// Fifth bits of line i, as 16 or 0, of 32 bits of each of eight rows.
UNLADEN_INLINE Bytes32 fifth_bits(__m256i of_rows, int i) {
    const __m256i rows = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404,
                                           0x08080808, 0x0c0c0c0c);
    const __m256i bit = _mm256_set1_epi32(i % 2 ? int(0x80402010) : 0x08040201);
    const __m256i pick = _mm256_add_epi8(rows, _mm256_set1_epi8(char(i / 2)));
    const __m256i mine = _mm256_and_si256(_mm256_shuffle_epi8(of_rows, pick), bit);
    return Bytes32{_mm256_cmpeq_epi8(mine, bit)}.field(0, 16);
}

template <class T>
    requires has_nibbles<T>
struct DealtFirst<T> {
    using W = Codes<T>;
    static UNLADEN_INLINE void lines(Line *q, int half, const uint8_t *p, size_t stride) {
        p += W::nibbles_at;
        for (int s = 0; s < T::block_size / 32; ++s, q += 8, p += 16) {
            Bytes32 four[4];
            deal_sixteen(four, p, stride);
            [[maybe_unused]] __m256i fifths;
            if constexpr (W::has_fifth) {
                const auto row = [=](int r) { return bits::load<int32_t>(p - 4 + r * stride); };
                fifths = _mm256_setr_epi32(row(0), row(1), row(2), row(3), row(4), row(5), row(6),
                                           row(7));
            }
#pragma GCC unroll 4
            for (int i = 0; i < 4; ++i) {
                Bytes32 low = W::decode(four[i].field(0, 15));
                Bytes32 high = W::decode(four[i].field(4, 15));
                if constexpr (W::has_fifth) {
                    low = low.plus(fifth_bits(fifths, i));
                    high = high.plus(fifth_bits(fifths, 4 + i));
                }
                low.store(q[i] + 32 * half);
                high.store(q[4 + i] + 32 * half);
            }
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
