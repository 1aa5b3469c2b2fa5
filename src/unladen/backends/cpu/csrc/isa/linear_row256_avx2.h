// One weight row of blocks of 256 times C int8 activation rows, on AVX2, where scales are packed
// into few bits: they are taken apart in vector registers, for a block's products wait for them.
#pragma once

#include "backends/cpu/csrc/isa/linear_int8.h"

namespace unladen::cpu::UNLADEN_ISA {

// 16 bytes in both halves of a register.
UNLADEN_INLINE __m256i twice128(const void *p) { return _mm256_broadcastsi128_si256(load128(p)); }

// Q4_K and Q5_K. Of the header's three times four bytes, p, q and r, each word gets one of r below
// one of p (scales) or of q (minimums), or for the first four one of p or q alone.
template <class T>
struct RowOfK {
    using Row = Row256;

    // The eight scales, in both halves.
    static UNLADEN_INLINE __m256i scales(__m256i header) {
        const __m128i at = _mm_setr_epi8(4, -1, 5, -1, 6, -1, 7, -1, 12, 4, 13, 5, 14, 6, 15, 7);
        const __m128i mask = _mm_setr_epi16(63, 63, 63, 63, 15, 15, 15, 15);
        const __m256i bytes = _mm256_shuffle_epi8(header, _mm256_broadcastsi128_si256(at));
        const __m256i low = _mm256_and_si256(bytes, _mm256_broadcastsi128_si256(mask));
        const __m256i high = _mm256_srli_epi16(bytes, 10);
        return _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi16(0x30)));
    }
    // The eight minimums, each twice.
    static UNLADEN_INLINE Words16 mins(__m256i header) {
        const __m256i at = _mm256_setr_epi8(-1, 8, -1, 8, -1, 9, -1, 9, -1, 10, -1, 10, -1, 11, -1,
                                            11, 12, 8, 12, 8, 13, 9, 13, 9, 14, 10, 14, 10, 15, 11,
                                            15, 11);
        const __m256i bytes = _mm256_shuffle_epi8(header, at);
        const __m256i down = _mm256_setr_epi32(8, 8, 8, 8, 4, 4, 4, 4);
        const __m256i low_mask = _mm256_setr_m128i(_mm_set1_epi16(63), _mm_set1_epi16(15));
        const __m256i high_mask = _mm256_setr_m128i(_mm_setzero_si128(), _mm_set1_epi16(0x30));
        const __m256i low = _mm256_and_si256(_mm256_srlv_epi32(bytes, down), low_mask);
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(bytes, 10), high_mask);
        return {_mm256_or_si256(low, high)};
    }

    template <int C>
    static UNLADEN_INLINE void dot(float *out, const uint8_t *row, int n_cols, const Row *x,
                                   auto ahead) {
        Total total[C], min[C];
        for (int b = 0; b < n_cols / 256; ++b, row += T::block_bytes) {
            ahead.ask(row, T::block_bytes);
            const Codes<T> w(row);
            const __m256i header = twice128(row), all_scales = scales(header);
            const Words16 all_mins = mins(header);
            const __m128 halves = _mm_cvtph_ps(_mm256_castsi256_si128(header));  // d, dmin, ...
            Sums sums[C];
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) sums[c] = Sums::zero();
#pragma GCC unroll 8
            for (int s = 0; s < 8; ++s) {
                const Bytes32 q = w.codes(s);
                const __m256i pick = _mm256_set1_epi16(int16_t(0x0100 + s * 0x0202));
                const __m256i scale = _mm256_shuffle_epi8(all_scales, pick);
#pragma GCC unroll 4
                for (int c = 0; c < C; ++c) sums[c].add(q.pairs(x[c].q + 256 * b + 32 * s), scale);
            }
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                const __m128 d = _mm_mul_ps(halves, _mm_broadcast_ss(x[c].d + b));
                total[c].add(d, sums[c]);
                min[c].add(_mm_movehdup_ps(d), all_mins.dot(x[c].minus + 16 * b));
            }
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
            total[c].v = _mm256_add_ps(total[c].v, min[c].v);
            out[c] = total[c].sum();
        }
    }
};

// Q3_K. Of each four times 32 codes two and two are put into halves of bytes, their third bits by a
// look-up.
struct RowOfQ3K {
    using Row = Row256;
    using T = Q3_K;

    // Scales: see Q3KScales. Each word gets a byte of low bits and one of high ones.
    static UNLADEN_INLINE Words16 scales(const uint8_t *row) {
        const __m128i at = _mm_setr_epi8(4, 12, 5, 13, 6, 14, 7, 15, 8, 12, 9, 13, 10, 14, 11, 15);
        const __m256i bytes = _mm256_shuffle_epi8(twice128(row + 92),
                                                  _mm256_broadcastsi128_si256(at));
        const __m256i low_at = _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4);
        const __m256i high_at = _mm256_setr_epi32(4, 4, 6, 6, 8, 8, 10, 10);
        const __m256i low = _mm256_and_si256(_mm256_srlv_epi32(bytes, low_at),
                                             _mm256_set1_epi16(15));
        const __m256i high = _mm256_and_si256(_mm256_srlv_epi32(bytes, high_at),
                                              _mm256_set1_epi16(0x30));
        return Words16{_mm256_or_si256(low, high)}.less(32);
    }

    // Of the first or the last four 32s (i / 2) number i % 2, and the next but one in high halves.
    static UNLADEN_INLINE Bytes32 two_of_four(const uint8_t *row, int i) {
        static constexpr int8_t thirds[2][16] = {
            {0, 4, 0, 4, 64, 68, 64, 68, 0, 4, 0, 4, 64, 68, 64, 68},
            {0, 0, 4, 4, 0, 0, 4, 4, 64, 64, 68, 68, 64, 64, 68, 68}};
        const Bytes32 top = Bytes32::load(row).field(i / 2 * 4, 15).look_up(thirds[i % 2]);
        return Bytes32::load(row + 32 + i / 2 * 32).field(i % 2 * 2, 0x33).plus(top);
    }

    template <int C>
    static UNLADEN_INLINE void dot(float *out, const uint8_t *row, int n_cols, const Row *x,
                                   auto ahead) {
        Total total[C];
        for (int b = 0; b < n_cols / 256; ++b, row += T::block_bytes) {
            ahead.ask(row, T::block_bytes);
            const Words16 words = scales(row);
            const Scales spread(words);
            Sums sums[C];
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                sums[c] = words.dot(x[c].minus + 16 * b).times(Codes<T>::bias);
            }
#pragma GCC unroll 4
            for (int i = 0; i < 4; ++i) {
                const Bytes32 two = two_of_four(row, i);
#pragma GCC unroll 2
                for (int high = 0; high < 2; ++high) {
                    const int s = i / 2 * 4 + i % 2 + 2 * high;
                    const Bytes32 q = two.field(4 * high, 15);
#pragma GCC unroll 4
                    for (int c = 0; c < C; ++c) {
                        const int8_t *x_s = x[c].q + 256 * b + 32 * s;
                        spread.template add_products<false>(sums[c], q, x_s, s);
                    }
                }
            }
            const float d = bits::half(row + T::block_bytes - 2);
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) total[c].add(d * x[c].d[b], sums[c]);
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) out[c] = total[c].sum();
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
