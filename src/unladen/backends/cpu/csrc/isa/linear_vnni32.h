// AVX-512 products with weights in blocks of 32: a row against up to four activation rows, and
// tiles of 16 rows, one per lane, against panels of eight.
#pragma once

#include "backends/cpu/csrc/isa/linear_drive.h"
#include "backends/cpu/csrc/isa/linear_vec.h"
#include "backends/cpu/csrc/isa/linear_wide32.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class T>
struct Int8Of32 {
    using W = Wide<T>;
    using Row = QuadRow;
    using Panel = Panel32;

    template <int C>
    struct Sums {
        __m512 products[C];
        __m128 mins[C];
    };

    // Adds four blocks of a row.
    template <int C>
    static UNLADEN_INLINE void add(Sums<C> &sum, Four w, const Row *x, int i) {
        const __m512i first = W::codes(w, 0), second = W::codes(w, 1);
        const __m128 scales = W::scales(w);
        const __m512i spread = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
            const Quad &quad = x[c].quads[i];
            __m512i acc = _mm512_setzero_si512();
            if constexpr (W::bias_log2 > 0) {
                acc = _mm512_slli_epi32(_mm512_loadu_si512(quad.minus), W::bias_log2);
            }
            acc = _mm512_dpbusd_epi32(acc, first, _mm512_loadu_si512(quad.q[0]));
            acc = _mm512_dpbusd_epi32(acc, second, _mm512_loadu_si512(quad.q[1]));
            const __m512 d = _mm512_castps128_ps512(_mm_mul_ps(scales, _mm_loadu_ps(quad.d)));
            sum.products[c] = _mm512_fmadd_ps(_mm512_permutexvar_ps(spread, d),
                                              _mm512_cvtepi32_ps(acc), sum.products[c]);
            if constexpr (W::has_min) {
                sum.mins[c] = _mm_fmadd_ps(W::mins(w), _mm_loadu_ps(quad.sum), sum.mins[c]);
            }
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

    template <int C>
    static void dot(float *out, const uint8_t *row, int n_cols, const Row *x) {
        constexpr int bytes = T::block_bytes;
        Sums<C> sum;
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
            sum.products[c] = _mm512_setzero_ps();
            sum.mins[c] = _mm_setzero_ps();
        }
        const int n_blocks = n_cols / 32;
        int i = 0;
        for (const uint8_t *w = row; 4 * i + 4 <= n_blocks; ++i, w += 4 * bytes) {
            add<C>(sum, {{w, w + bytes, w + 2 * bytes, w + 3 * bytes}}, x, i);
        }
        if (4 * i < n_blocks) add<C>(sum, four(row, 4 * i, n_blocks), x, i);
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
            __m512 total = sum.products[c];
            if constexpr (W::has_min) {
                total = _mm512_add_ps(total, _mm512_zextps128_ps512(sum.mins[c]));
            }
            out[c] = _mm512_reduce_add_ps(total);
        }
    }

    static constexpr int rows = 16, tile_k = 256, n_tiles = 2, columns = 256;

    struct Tile {
        alignas(64) uint8_t q[tile_k / 4][64];  // [k / 4][row][4]
        alignas(64) float scale[tile_k / 32][16];
        alignas(64) float min[tile_k / 32][16];
    };

    static void unpack(Tile &tile, const uint8_t *const *row, int k, int n_k) {
        const size_t offset = size_t(k / 32) * T::block_bytes;
        alignas(64) float headers[16][2][8];  // [row][scale, min][block]
        __m512i v[16];
        for (int b = 0; b < n_k / 32; b += 4) {
            Four w[16];
            for (int r = 0; r < 16; ++r) {
                w[r] = four(row[r] + offset, b, n_k / 32);
                _mm_storeu_ps(headers[r][0] + b, W::scales(w[r]));
                if constexpr (W::has_min) _mm_storeu_ps(headers[r][1] + b, W::mins(w[r]));
            }
            for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 16
                for (int r = 0; r < 16; ++r) v[r] = W::codes(w[r], half);
                transpose(v);
#pragma GCC unroll 16
                for (int i = 0; i < 16; ++i) {
                    _mm512_store_si512(tile.q[8 * (b + i / 4) + 4 * half + i % 4], v[i]);
                }
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < 16; ++r) v[r] = _mm512_load_si512(headers[r]);
        transpose(v);
#pragma GCC unroll 8
        for (int b = 0; b < 8; ++b) {
            _mm512_store_si512(tile.scale[b], v[b]);
            if constexpr (W::has_min) _mm512_store_si512(tile.min[b], v[b + 8]);
        }
    }

    static void multiply(float *c, const Tile &tile, const Panel &x, int k, int n_k) {
        constexpr int n = panel_columns;
        const int8_t *q = x.q + size_t(k) * n;
        const int first = k / 32 * n;
        __m512 sum[n];
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) sum[j] = _mm512_load_ps(c + 16 * j);
        for (int b = 0; b < n_k / 32; ++b) {
            const int at = first + b * n;
            __m512i acc[n];
#pragma GCC unroll 8
            for (int j = 0; j < n; ++j) acc[j] = start<W::bias_log2, 1>(x.minus + at + j, n);
#pragma GCC unroll 8
            for (int i = 0; i < 8; ++i, q += 4 * n) {
                const __m512i w = _mm512_load_si512(tile.q[8 * b + i]);
#pragma GCC unroll 8
                for (int j = 0; j < n; ++j) {
                    acc[j] = _mm512_dpbusd_epi32(acc[j], w, broadcast4(q + 4 * j));
                }
            }
            const __m512 scale = _mm512_load_ps(tile.scale[b]);
#pragma GCC unroll 8
            for (int j = 0; j < n; ++j) {
                sum[j] = _mm512_fmadd_ps(_mm512_mul_ps(scale, _mm512_set1_ps(x.d[at + j])),
                                         _mm512_cvtepi32_ps(acc[j]), sum[j]);
                if constexpr (W::has_min) {
                    sum[j] = _mm512_fmadd_ps(_mm512_load_ps(tile.min[b]),
                                             _mm512_set1_ps(x.sum[at + j]), sum[j]);
                }
            }
        }
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) _mm512_store_ps(c + 16 * j, sum[j]);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
