// One weight row of blocks of 32 times C int8 activation rows, on AVX2. Memory is faster than
// scaling one block after the other and adding it to one sum. So eight blocks are computed at a
// time: their scales are multiplied with those of the activations in one register, biases of codes
// and minimums of all eight are one product with sums of activations, and several sums are
// independent.
#pragma once

#include "backends/cpu/csrc/isa/products/loops.h"
#include "backends/cpu/csrc/isa/products/nibble_pairs_avx2.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class T>
struct Row32Of {
    using W = Codes<T>;
    static constexpr int bytes = T::block_bytes, n_each = T::block_size / 32;
    using Row = Choose<has_nibbles<T>, Row32Pairs, Row32>;

    template <int C>
    struct Eights {
        // Several sums, since an addition takes four cycles and a block's other work less than two.
        static constexpr int n_sums = C == 1 ? 4 : 2;
        __m256 products[C][n_sums], mins[C];

        UNLADEN_INLINE Eights() {
#pragma GCC unroll 16
            for (int i = 0; i < C * n_sums; ++i) {
                products[i / n_sums][i % n_sums] = _mm256_setzero_ps();
            }
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) mins[c] = _mm256_setzero_ps();
        }

        // Blocks b ... b + 7.
        UNLADEN_INLINE void add(EightBlocks<T> w, int b, const Row *x) {
            const __m256 scales = w.scales();
            __m256 d[C];
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                d[c] = _mm256_mul_ps(scales, _mm256_loadu_ps(x[c].d + b));
                add_mins(c, scales, w, _mm256_loadu_ps(x[c].sum + b));
            }
            if constexpr (has_nibbles<T>) {
                add_two<0>(w.p, b, x, d);
                add_two<1>(w.p, b, x, d);
                add_two<2>(w.p, b, x, d);
                add_two<3>(w.p, b, x, d);
            } else {
                add_each(w, b, x, d);
            }
        }

        // Blocks i and i + 4.
        template <int i>
        UNLADEN_INLINE void add_two(const uint8_t *row, int b, const Row *x,
                                    const __m256 (&d)[C]) {
            const TwoBlocks q = two_blocks<T>(row + i * bytes, row + (i + 4) * bytes);
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                const __m256i first = products_of<T>(q.first, x[c], 32 * b + 64 * i);
                const __m256i last = products_of<T>(q.last, x[c], 32 * b + 64 * i + 32);
                const __m256i one = _mm256_set1_epi16(1);
                __m256i sums;
                if constexpr (4 * 127 * W::max_code < 1 << 15) {
                    sums = _mm256_madd_epi16(_mm256_add_epi16(first, last), one);
                } else {
                    sums = _mm256_add_epi32(_mm256_madd_epi16(first, one),
                                            _mm256_madd_epi16(last, one));
                }
                __m256 &to = products[c][i % n_sums];
                to = _mm256_fmadd_ps(_mm256_permute_ps(d[c], i * 0x55), _mm256_cvtepi32_ps(sums),
                                     to);
            }
        }

        UNLADEN_INLINE void add_each(EightBlocks<T> w, int b, const Row *x,
                                     const __m256 (&scales)[C]) {
            alignas(32) float d[C][8];
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) _mm256_store_ps(d[c], scales[c]);
            __asm__("" : "+m"(d));  // a load repeats a number at no cost, a shuffle doesn't
#pragma GCC unroll 8
            for (int i = 0; i < 8; ++i) {
                const Bytes32 codes = w.codes(i);
#pragma GCC unroll 4
                for (int c = 0; c < C; ++c) {
                    const int8_t *q = x[c].q + 32 * (b + i);
                    const __m256i pairs = W::is_signed ? codes.signed_pairs(q) : codes.pairs(q);
                    const __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
                    __m256 &to = products[c][i % n_sums];
                    to = _mm256_fmadd_ps(_mm256_set1_ps(d[c][i]), _mm256_cvtepi32_ps(sums), to);
                }
            }
        }

        UNLADEN_INLINE void add_mins(int c, __m256 scales, EightBlocks<T> w, __m256 x_sum) {
            if constexpr (W::has_min) {
                mins[c] = _mm256_fmadd_ps(eight_halves(w.p + 2, bytes), x_sum, mins[c]);
            } else if constexpr (W::bias > 0) {
                const __m256 m = _mm256_mul_ps(scales, _mm256_set1_ps(-float(W::bias)));
                mins[c] = _mm256_fmadd_ps(m, x_sum, mins[c]);
            }
        }

        UNLADEN_INLINE float sum(int c) const {
            Total total = {mins[c]};
#pragma GCC unroll 4
            for (int i = 0; i < n_sums; ++i) total.v = _mm256_add_ps(total.v, products[c][i]);
            return total.sum();
        }
    };

    template <int C>
    static UNLADEN_INLINE void dot(float *out, const uint8_t *row, int n_cols, const Row *x,
                                   auto ahead) {
        Eights<C> eights;
        const int n_blocks = n_cols / 32;
        int b = 0;
        for (; b + 8 <= n_blocks; b += 8, row += 8 / n_each * bytes) {
            ahead.ask(row, 8 / n_each * bytes);
            eights.add({row}, b, x);
        }
        float rest[C] = {};
        for (; b < n_blocks; ++b) {
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) rest[c] += block(row, x[c], b);
            if (b % n_each == n_each - 1) row += bytes;
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) out[c] = eights.sum(c) + rest[c];
    }

    // 32 weights after whole eights of blocks.
    static float block(const uint8_t *w, const Row &x, int b) {
        Sums sums = Sums::zero();
        sums.add_products(signed_codes<T>(w, b % n_each), x.q + 32 * b);
        Total total;
        total.add(W::d(w) * x.d[b], sums);
        float min = 0;
        if constexpr (W::has_min) min = W::m(w) * x.sum[b];
        return total.sum() + min;
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
