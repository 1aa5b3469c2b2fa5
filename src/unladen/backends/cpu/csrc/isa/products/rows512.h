// AVX-512 products with weights of formats that are decoded row by row: a row against one
// activation row, and tiles of 16 rows, one per lane, against panels of eight columns.
#pragma once

#include "backends/cpu/csrc/isa/products/dealt512.h"
#include "backends/cpu/csrc/isa/products/tile_pairs512.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class T>
struct Int8Of256 {
    using W = Codes512<T>;
    using Row = Row256;

    // The products with block b, without its d. 16 bits hold sums of four products of codes below
    // 64 with |q| <= 127.
    static UNLADEN_INLINE __m512 products(const W &w, const Row &x, int b) {
        const int8_t *q = x.q + 256 * b;
        __m512i acc = _mm512_setzero_si512();
        if constexpr (W::bias > 0) {
            const __m256i minus = _mm256_madd_epi16(w.scales(), load256(x.minus + 16 * b));
            acc = _mm512_zextsi256_si512(_mm256_slli_epi32(minus, log2_of(W::bias)));
        }
        acc = add_codes<0>(acc, w, q);
        if constexpr (W::sub != 32) acc = add_codes<1>(acc, w, q);
        acc = add_codes<2>(acc, w, q);
        if constexpr (W::sub != 32) acc = add_codes<3>(acc, w, q);
        return _mm512_cvtepi32_ps(acc);
    }

    static UNLADEN_INLINE __m512 add(__m512 sum, const W &w, const Row &x, int b) {
        const __m128 d = _mm_mul_ps(w.d(), _mm_set1_ps(x.d[b]));
        return _mm512_fmadd_ps(_mm512_broadcastss_ps(d), products(w, x, b), sum);
    }

    static void dot(float *out, const uint8_t *row, int n_cols, const Row &x, auto ahead) {
        __m512 sum = _mm512_setzero_ps();
        int b = 0;
        if constexpr (requires { typename W::Pair; }) {
            for (; b + 2 <= n_cols / 256; b += 2, row += 2 * T::block_bytes) {
                ahead.ask(row, 2 * T::block_bytes);
                const typename W::Pair pair(row);
                sum = add(sum, pair.template block<0>(), x, b);
                sum = add(sum, pair.template block<1>(), x, b + 1);
            }
        }
        for (; b < n_cols / 256; ++b, row += T::block_bytes) {
            ahead.ask(row, T::block_bytes);
            sum = add(sum, W(row), x, b);
        }
        *out = _mm512_reduce_add_ps(sum);
    }

    // The activations for codes<j>().
    template <int j>
    static UNLADEN_INLINE __m512i activations(const W &w, const int8_t *q) {
        const __m512i x = load512(q + 64 * j);
        if constexpr (requires { w.template negative<j>(); }) {
            return _mm512_mask_sub_epi8(x, w.template negative<j>(), _mm512_setzero_si512(), x);
        }
        return x;
    }

    // Adds codes<j>(), and codes<j + 1>() if they have the same scales.
    template <int j>
    static UNLADEN_INLINE __m512i add_codes(__m512i acc, const W &w, const int8_t *q) {
        const __m512i first = w.template codes<j>(), x = activations<j>(w, q);
        if constexpr (W::sub == 256) {
            return _mm512_dpbusd_epi32(acc, first, x);
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
};

template <class T>
struct TiledRows {
    using Products = TileProducts256<Shape256<DealtRows<T>::sub>>;
    using Panel = Panel256;
    using Tile = Tile256;
    static constexpr int tile_k = 256, slice_bytes = T::block_bytes;
    static constexpr int occasions = tile_k / DealtRows<T>::sub;
    static constexpr int n_steps = DealtRows<T>::n_quarters + 1;

    static UNLADEN_INLINE void unpack_step(Tile &tile, Sixteen w, int step) {
        if (step < DealtRows<T>::n_quarters)
            DealtRows<T>::codes(tile, w, step);
        else
            DealtRows<T>::scales(tile, w);
    }
    static Sixteen rows_at(const Job &job, int row, int k, uint8_t *spare) {
        const Slice slice = slice_of<T, tile_rows>(job, row, k, tile_k, spare);
        return {slice.p, slice.stride};
    }
    static void unpack(Tile &tile, const Job &job, int row, int k, int) {
        alignas(64) uint8_t spare[tile_rows * slice_bytes];
        const Sixteen w = rows_at(job, row, k, spare);
        for (int s = 0; s < n_steps; ++s) unpack_step(tile, w, s);
    }
    static UNLADEN_INLINE void ask_sums(const Panel &, int) {}
};

template <class T>
void run_rows_apart(const Job &job, bool panels) {
    if (!panels) return run_row<Int8Of256<T>>(job);
    if (job.t_last - job.t_first <= panel_columns) return OnePanel<TiledRows<T>>(job).run();
    run_pairs<TiledRows<T>>(job);
}

}  // namespace unladen::cpu::UNLADEN_ISA
