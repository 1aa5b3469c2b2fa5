// AVX-512 products with weights in blocks of 256: a row against one activation row, and tiles of 16
// rows, one per lane, against panels of eight columns.
#pragma once

#include "backends/cpu/csrc/isa/linear_drive.h"
#include "backends/cpu/csrc/isa/linear_tiles.h"
#include "backends/cpu/csrc/isa/linear_wide256.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class T>
struct Int8Of256 {
    using Type = T;
    using W = Wide<T>;
    using Row = Row256;
    using Panel = Panel256;

    struct Sums {
        __m512 products = _mm512_setzero_ps();
        __m512 mins = _mm512_setzero_ps();
    };

    // Of block b, without its d. 16 bits hold sums of four products of codes below 64 and
    // |q| <= 127.
    static UNLADEN_INLINE __m512 products(const W &w, const Row &x, int b) {
        const int8_t *q = x.q + 256 * b;
        __m512i acc = _mm512_setzero_si512();
        if constexpr (W::bias > 0) {
            const __m256i minus = _mm256_madd_epi16(w.scales(), load256(x.minus + 16 * b));
            acc = _mm512_zextsi256_si512(_mm256_slli_epi32(minus, log2_of(W::bias)));
        }
        if constexpr (W::sub != 32) {
            acc = add_codes<0>(acc, w, q);
            acc = add_codes<1>(acc, w, q);
            acc = add_codes<2>(acc, w, q);
            acc = add_codes<3>(acc, w, q);
        } else {
            acc = add_codes<0>(acc, w, q);
            acc = add_codes<2>(acc, w, q);
        }
        return _mm512_cvtepi32_ps(acc);
    }

    static UNLADEN_INLINE void add(Sums &sum, const W &w, const Row &x, int b) {
        const __m128 d = _mm_mul_ps(w.d(), _mm_set1_ps(x.d[b]));
        sum.products =
            _mm512_fmadd_ps(_mm512_broadcastss_ps(d), products(w, x, b), sum.products);
        if constexpr (W::has_min) {
            const __m256i m = _mm256_madd_epi16(w.mins(), load256(x.minus + 16 * b));
            sum.mins = _mm512_fmadd_ps(_mm512_broadcastss_ps(_mm_movehdup_ps(d)),
                                       _mm512_cvtepi32_ps(_mm512_zextsi256_si512(m)), sum.mins);
        }
    }

    // Blocks b and b + 1; a pair may have d() and mins() of both.
    template <class Pair>
    static UNLADEN_INLINE void add_pair(Sums &sum, const Pair &pair, const Row &x, int b) {
        if constexpr (!requires { pair.d(); }) {
            add(sum, pair.template block<0>(), x, b);
            add(sum, pair.template block<1>(), x, b + 1);
        } else {
            const __m128 x_d = _mm_castsi128_ps(_mm_loadl_epi64(
                reinterpret_cast<const __m128i *>(x.d + b)));
            const __m512 d =
                _mm512_castps128_ps512(_mm_mul_ps(pair.d(), _mm_unpacklo_ps(x_d, x_d)));
            const __m512i d0 = _mm512_setzero_si512(), d1 = _mm512_set1_epi32(2);
            const __m512i dmin = _mm512_setr_epi32(1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3);
            sum.products = _mm512_fmadd_ps(_mm512_permutexvar_ps(d0, d),
                                           products(pair.template block<0>(), x, b), sum.products);
            sum.products = _mm512_fmadd_ps(_mm512_permutexvar_ps(d1, d),
                                           products(pair.template block<1>(), x, b + 1),
                                           sum.products);
            const __m512i m = _mm512_madd_epi16(pair.mins(), load512(x.minus + 16 * b));
            sum.mins =
                _mm512_fmadd_ps(_mm512_permutexvar_ps(dmin, d), _mm512_cvtepi32_ps(m), sum.mins);
        }
    }

    static void dot(float *out, const uint8_t *row, int n_cols, const Row &x) {
        Sums sum;
        int b = 0;
        if constexpr (requires { typename W::Pair; }) {
            for (; b + 2 <= n_cols / 256; b += 2, row += 2 * T::block_bytes) {
                ask_ahead(row, 2 * T::block_bytes);
                add_pair(sum, typename W::Pair(row), x, b);
            }
        }
        for (; b < n_cols / 256; ++b, row += T::block_bytes) {
            ask_ahead(row, T::block_bytes);
            add(sum, W(row), x, b);
        }
        __m512 total = sum.products;
        if constexpr (W::has_min) total = _mm512_add_ps(total, sum.mins);
        *out = _mm512_reduce_add_ps(total);
    }

    // What codes<j>() are multiplied by.
    template <int j>
    static UNLADEN_INLINE __m512i activations(const W &w, const int8_t *q) {
        const __m512i x = load512(q + 64 * j);
        if constexpr (requires { w.template negative<j>(); }) {
            return _mm512_mask_sub_epi8(x, w.template negative<j>(), _mm512_setzero_si512(), x);
        }
        return x;
    }

    // Codes number j, and j + 1 where these have the same scales.
    template <int j>
    static UNLADEN_INLINE __m512i add_codes(__m512i acc, const W &w, const int8_t *q) {
        const __m512i first = w.template codes<j>(), x = activations<j>(w, q);
        if constexpr (W::sub == 256) {
            return _mm512_dpbusd_epi32(acc, first, x);
        } else if constexpr (!W::below_64) {
            __m512i sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), first, x);
            sums = _mm512_dpbusd_epi32(sums, w.template codes<j + 1>(), activations<j + 1>(w, q));
            return _mm512_add_epi32(acc, _mm512_mullo_epi32(sums, w.template scale<j>()));
        } else {
            __m512i pairs = _mm512_maddubs_epi16(first, x);
            if constexpr (W::sub == 32) {
                pairs = _mm512_add_epi16(
                    pairs, _mm512_maddubs_epi16(w.template codes<j + 1>(),
                                                activations<j + 1>(w, q)));
            }
            return _mm512_dpwssd_epi32(acc, pairs, w.template scale<j>());
        }
    }

    using Tile = Tile256;
    static constexpr int tile_k = 256;
    static constexpr int occasions = tile_k / Across<T>::sub;  // for each group of columns

    static constexpr int n_steps(int) { return Across<T>::n_parts + 1; }
    static UNLADEN_INLINE void unpack_step(Tile &tile, Sixteen w, int step) {
        if (step < Across<T>::n_parts)
            Across<T>::codes(tile, w, step);
        else
            Across<T>::scales(tile, w);
    }

    static UNLADEN_INLINE const uint8_t *codes_at(const Panel &x, int k) {
        return reinterpret_cast<const uint8_t *>(x.q + size_t(k) * panel_columns);
    }

    template <int tiles, int n, class Beside>
    static UNLADEN_INLINE void multiply(Totals c, const Tile *tile, const Panel &x, int k, int,
                                        int column, Beside &beside) {
        multiply256<Across<T>::sub, tiles, n>(c, tile, x, k, column, beside);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
