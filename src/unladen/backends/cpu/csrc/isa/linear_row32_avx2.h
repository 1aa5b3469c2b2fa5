// One weight row of blocks of 32 times C int8 activation rows, on AVX2. Such rows arrive faster
// from memory than a block after the other can be scaled and added to one sum, so blocks are taken
// eight at a time: their scales meet the activations' in one register, biases of codes and minimums
// are one product of all eight with sums of activations, and several sums run side by side.
#pragma once

#include "backends/cpu/csrc/isa/linear_codes.h"
#include "backends/cpu/csrc/isa/linear_drive.h"

namespace unladen::cpu::UNLADEN_ISA {

// What eight float16, `apart` bytes from one another, stand for.
template <int apart>
UNLADEN_INLINE __m256 eight_halves(const uint8_t *p) {
    uint64_t words[2] = {};
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
        words[i / 4] |= uint64_t(bits::load<uint16_t>(p + i * apart)) << 16 * (i % 4);
    }
    // Compilers would do this in vectors, which have enough to do.
    __asm__("" : "+r"(words[0]), "+r"(words[1]));
    return _mm256_cvtph_ps(_mm_set_epi64x(int64_t(words[1]), int64_t(words[0])));
}

template <class T>
UNLADEN_INLINE __m256 eight_scales(const uint8_t *row) {
    return eight_halves<T::block_bytes>(row);
}
template <>
UNLADEN_INLINE __m256 eight_scales<MXFP4>(const uint8_t *row) {
    float d[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) d[i] = Codes<MXFP4>::d(row + i * MXFP4::block_bytes);
    return _mm256_loadu_ps(d);
}

template <class T>
struct Row32Of {
    using Row = Row32;
    using W = Codes<T>;
    static constexpr int bytes = T::block_bytes;

    template <int C>
    struct Eights {
        // An addition takes four cycles, a block's other work less than two.
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

        // Blocks b ... b + 7, the first of them at `row`.
        UNLADEN_INLINE void add(const uint8_t *row, int b, const Row *x) {
            const __m256 scales = eight_scales<T>(row);
            alignas(32) float d[C][8];
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                _mm256_store_ps(d[c], _mm256_mul_ps(scales, _mm256_loadu_ps(x[c].d + b)));
                add_mins(c, scales, row, _mm256_loadu_ps(x[c].sum + b));
            }
            __asm__("" : "+m"(d));  // loads can spread a number for nothing, shuffles can't
#pragma GCC unroll 8
            for (int i = 0; i < 8; ++i) {
                const Bytes32 codes = W::codes(row + i * bytes);
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

        UNLADEN_INLINE void add_mins(int c, __m256 scales, const uint8_t *row, __m256 x_sum) {
            if constexpr (W::has_min) {
                mins[c] = _mm256_fmadd_ps(eight_halves<bytes>(row + 2), x_sum, mins[c]);
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
    static void dot(float *out, const uint8_t *row, int n_cols, const Row *x) {
        Eights<C> eights;
        const int n_blocks = n_cols / 32;
        int b = 0;
        for (; b + 8 <= n_blocks; b += 8, row += 8 * bytes) {
            ask_ahead(row, 8 * bytes);
            eights.add(row, b, x);
        }
        float rest[C] = {};
        for (; b < n_blocks; ++b, row += bytes) {
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) rest[c] += block(row, x[c], b);
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) out[c] = eights.sum(c) + rest[c];
    }

    // One of the blocks that are left.
    static float block(const uint8_t *w, const Row &x, int b) {
        Sums sums = Sums::zero();
        sums.add_products(signed_codes<T>(w), x.q + 32 * b);
        Total total;
        total.add(W::d(w) * x.d[b], sums);
        float min = 0;
        if constexpr (W::has_min) min = W::m(w) * x.sum[b];
        return total.sum() + min;
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
