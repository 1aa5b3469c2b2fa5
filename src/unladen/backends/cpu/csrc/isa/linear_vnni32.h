// AVX-512 products with weights in blocks of 32: a row against one activation row, and tiles of 16
// rows, one per lane, against panels of eight columns.
#pragma once

#include "backends/cpu/csrc/isa/linear_drive.h"
#include "backends/cpu/csrc/isa/linear_tiles.h"
#include "backends/cpu/csrc/isa/linear_wide32.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class T>
struct Int8Of32 {
    using Type = T;
    using W = Wide<T>;
    using Row = QuadRow;
    using Panel = Panel32;

    struct Sums {
        __m512 products = _mm512_setzero_ps();
        __m128 mins = _mm_setzero_ps();
    };

    // Adds four blocks of a row.
    static UNLADEN_INLINE void add(Sums &sum, Four w, const Quad &x) {
        const __m512i spread = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
        __m512i acc = _mm512_setzero_si512();
        if constexpr (W::bias > 0) {
            acc = _mm512_slli_epi32(_mm512_loadu_si512(x.minus), log2_of(W::bias));
        }
        acc = _mm512_dpbusd_epi32(acc, W::codes(w, 0), _mm512_loadu_si512(x.q[0]));
        acc = _mm512_dpbusd_epi32(acc, W::codes(w, 1), _mm512_loadu_si512(x.q[1]));
        const __m512 d = _mm512_castps128_ps512(_mm_mul_ps(W::scales(w), _mm_loadu_ps(x.d)));
        sum.products = _mm512_fmadd_ps(_mm512_permutexvar_ps(spread, d), _mm512_cvtepi32_ps(acc),
                                       sum.products);
        if constexpr (W::has_min) {
            sum.mins = _mm_fmadd_ps(W::mins(w), _mm_loadu_ps(x.sum), sum.mins);
        }
    }

    // Blocks from the row's block b on; past its end the last one, where the activations are zero.
    static UNLADEN_INLINE Four four(const uint8_t *row, int b, int n_blocks) {
        Four w;
        for (int i = 0; i < 4; ++i) {
            w.b[i] = row + size_t(b + i < n_blocks ? b + i : n_blocks - 1) * T::block_bytes;
        }
        return w;
    }

    static void dot(float *out, const uint8_t *row, int n_cols, const Row &x) {
        constexpr int bytes = T::block_bytes;
        Sums sum;
        const int n_blocks = n_cols / 32;
        int i = 0;
        for (const uint8_t *w = row; 4 * i + 4 <= n_blocks; ++i, w += 4 * bytes) {
            ask_ahead(w, 4 * bytes);
            add(sum, {{w, w + bytes, w + 2 * bytes, w + 3 * bytes}}, x.quads[i]);
        }
        if (4 * i < n_blocks) add(sum, four(row, 4 * i, n_blocks), x.quads[i]);
        __m512 total = sum.products;
        if constexpr (W::has_min) total = _mm512_add_ps(total, _mm512_zextps128_ps512(sum.mins));
        *out = _mm512_reduce_add_ps(total);
    }

    static constexpr int tile_k = 256;
    static constexpr int occasions = tile_k / 32;  // for each group of columns
    struct Tile {
        Tile32 block[tile_k / 32];
    };

    static constexpr int n_steps(int n_k) { return n_k / 32; }
    static UNLADEN_INLINE void unpack_step(Tile &tile, Sixteen w, int step) {
        Across<T>::decode(tile.block[step], w.at(size_t(step) * T::block_bytes));
    }

    static UNLADEN_INLINE const uint8_t *codes_at(const Panel &x, int k) {
        return reinterpret_cast<const uint8_t *>(x.q + size_t(k) * panel_columns);
    }

    template <int tiles, int n, class Beside>
    static UNLADEN_INLINE void multiply(Totals c, const Tile *tile, const Panel &x, int k, int n_k,
                                        int column, Beside &beside) {
        multiply32<tiles, n>(c, tile, n_k / 32, x, k, column, beside);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
