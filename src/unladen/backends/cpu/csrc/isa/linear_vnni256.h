// AVX-512 products with weights in blocks of 256: a row against up to four activation rows, and
// tiles of 16 rows, one per lane, against panels of eight.
#pragma once

#include "backends/cpu/csrc/isa/linear_drive.h"
#include "backends/cpu/csrc/isa/linear_vec.h"
#include "backends/cpu/csrc/isa/linear_wide256.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class T>
struct Int8Of256 {
    using W = Wide<T>;
    using Row = Row256;
    using Panel = Panel256;

    // 16 bits hold sums of two products of codes below 64 and |q| <= 127, or of four below 32.
    template <int C>
    static void dot(float *out, const uint8_t *row, int n_cols, const Row *x) {
        __m512 sum[C];
        __m256 mins[C];
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
            sum[c] = _mm512_setzero_ps();
            mins[c] = _mm256_setzero_ps();
        }
        for (int b = 0; b < n_cols / 256; ++b, row += T::block_bytes) {
            add<C>(sum, mins, row, x, b);
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
            if constexpr (W::has_min) {
                sum[c] = _mm512_add_ps(sum[c], _mm512_zextps256_ps512(mins[c]));
            }
            out[c] = _mm512_reduce_add_ps(sum[c]);
        }
    }

    template <int C>
    static UNLADEN_INLINE void add(__m512 *sum, __m256 *mins, const uint8_t *block, const Row *x,
                           int b) {
        const W w(block);
        __m512i acc[C];
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
            acc[c] = _mm512_setzero_si512();
            if constexpr (W::bias_log2 > 0) {
                const __m256i minus = _mm256_madd_epi16(w.scales(), load256(x[c].minus + 16 * b));
                acc[c] = _mm512_zextsi256_si512(_mm256_slli_epi32(minus, W::bias_log2));
            }
        }
        if constexpr (W::sub == 16) {
            multiply_codes<C, 0>(acc, w, x, b);
            multiply_codes<C, 1>(acc, w, x, b);
            multiply_codes<C, 2>(acc, w, x, b);
            multiply_codes<C, 3>(acc, w, x, b);
        } else {
            multiply_codes<C, 0>(acc, w, x, b);
            multiply_codes<C, 2>(acc, w, x, b);
        }
        const __m128 d = w.d();
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
            const __m128 dx = _mm_mul_ps(d, _mm_set1_ps(x[c].d[b]));
            sum[c] = _mm512_fmadd_ps(_mm512_broadcastss_ps(dx), _mm512_cvtepi32_ps(acc[c]), sum[c]);
            if constexpr (W::has_min) {
                const __m256i m = _mm256_madd_epi16(w.mins(), load256(x[c].minus + 16 * b));
                mins[c] = _mm256_fmadd_ps(_mm256_broadcastss_ps(_mm_movehdup_ps(dx)),
                                          _mm256_cvtepi32_ps(m), mins[c]);
            }
        }
    }

    // Codes number j, and j + 1 where these have the same scales.
    template <int C, int j>
    static UNLADEN_INLINE void multiply_codes(__m512i *acc, const W &w, const Row *x, int b) {
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
            const int8_t *q = x[c].q + 256 * b + 64 * j;
            const __m512i first = w.template codes<j>();
            if constexpr (!W::below_64) {
                __m512i sums = _mm512_dpbusd_epi32(_mm512_setzero_si512(), first, load512(q));
                sums = _mm512_dpbusd_epi32(sums, w.template codes<j + 1>(), load512(q + 64));
                sums = _mm512_mullo_epi32(sums, w.template scale<j>());
                acc[c] = _mm512_add_epi32(acc[c], sums);
            } else {
                __m512i pairs = _mm512_maddubs_epi16(first, load512(q));
                if constexpr (W::sub == 32) {
                    pairs = _mm512_add_epi16(pairs, _mm512_maddubs_epi16(w.template codes<j + 1>(),
                                                                         load512(q + 64)));
                }
                acc[c] = _mm512_dpwssd_epi32(acc[c], pairs, w.template scale<j>());
            }
        }
    }

    static constexpr int rows = 16, tile_k = 256, n_tiles = 2, columns = 256;
    static constexpr int n_sub = tile_k / W::sub, n_mins = W::sub == 32 ? 4 : 16;

    struct Tile {
        alignas(64) uint8_t q[tile_k / 4][64];  // [k / 4][row][4]
        alignas(64) float scale[16][16];        // [sub-block][row], d included
        alignas(64) int32_t min[n_mins][16];    // [sub-block or pair of these][row]
        alignas(64) float dmin[16];
    };

    template <int j>
    static void unpack_codes(Tile &tile, const uint8_t *const *row, size_t offset) {
        __m512i v[16];
#pragma GCC unroll 16
        for (int r = 0; r < 16; ++r) v[r] = W(row[r] + offset).template codes<j>();
        transpose(v);
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) {
            _mm512_store_si512(tile.q[16 * (i / 4) + 4 * j + i % 4], v[i]);
        }
    }

    static void unpack(Tile &tile, const uint8_t *const *row, int k, int) {
        const size_t offset = size_t(k / 256) * T::block_bytes;
        __m512i v[16];
        unpack_codes<0>(tile, row, offset);
        unpack_codes<1>(tile, row, offset);
        unpack_codes<2>(tile, row, offset);
        unpack_codes<3>(tile, row, offset);
        for (int r = 0; r < 16; ++r) {
            const W w(row[r] + offset);
            const __m128 d = w.d();
            const __m512 scales = _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(w.scales()));
            v[r] = _mm512_castps_si512(_mm512_mul_ps(scales, _mm512_broadcastss_ps(d)));
            if constexpr (W::has_min) tile.dmin[r] = _mm_cvtss_f32(_mm_movehdup_ps(d));
        }
        transpose(v);
#pragma GCC unroll 16
        for (int s = 0; s < n_sub; ++s) _mm512_store_si512(tile.scale[s], v[s * (16 / n_sub)]);
        if constexpr (W::has_min) {
#pragma GCC unroll 16
            for (int r = 0; r < 16; ++r) {
                v[r] = W(row[r] + offset).tile_mins();
            }
            transpose(v);
#pragma GCC unroll 8
            for (int s = 0; s < n_mins; ++s) _mm512_store_si512(tile.min[s], v[s]);
        }
    }

    // Sums of 16 q are 32-bit numbers that meet (min, 0); those of 32 come in pairs, as mins do.
    static UNLADEN_INLINE void add_mins(__m512 *sum, const Tile &tile, const Panel &x, int k) {
        constexpr int n = panel_columns;
        const void *sums = x.pairs + size_t(k) / 32 * n;
        if constexpr (W::sub == 16) sums = x.minus + size_t(k) / 16 * n;
        const uint8_t *minus = static_cast<const uint8_t *>(sums);
        __m512i acc[n];
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) acc[j] = _mm512_setzero_si512();
#pragma GCC unroll 4
        for (int s = 0; s < n_mins; ++s, minus += 4 * n) {
            const __m512i min = _mm512_load_si512(tile.min[s]);
#pragma GCC unroll 8
            for (int j = 0; j < n; ++j) {
                acc[j] = _mm512_dpwssd_epi32(acc[j], min, broadcast4(minus + 4 * j));
            }
        }
        const __m512 dmin = _mm512_load_ps(tile.dmin);
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) {
            sum[j] = _mm512_fmadd_ps(dmin, _mm512_cvtepi32_ps(acc[j]), sum[j]);
        }
    }

    static void multiply(float *c, const Tile &tile, const Panel &x, int k, int) {
        constexpr int n = panel_columns;
        const int8_t *q = x.q + size_t(k) * n;
        const int32_t *minus = x.minus + k / 16 * n;
        __m512 sum[n];
        __m512i acc[n];
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) sum[j] = _mm512_setzero_ps();
        for (int s = 0; s < n_sub; ++s, minus += W::sub / 16 * n) {
#pragma GCC unroll 8
            for (int j = 0; j < n; ++j) acc[j] = start<W::bias_log2, W::sub / 16>(minus + j, n);
#pragma GCC unroll 8
            for (int i = 0; i < W::sub / 4; ++i, q += 4 * n) {
                const __m512i w = _mm512_load_si512(tile.q[s * (W::sub / 4) + i]);
#pragma GCC unroll 8
                for (int j = 0; j < n; ++j) {
                    acc[j] = _mm512_dpbusd_epi32(acc[j], w, broadcast4(q + 4 * j));
                }
            }
            const __m512 scale = _mm512_load_ps(tile.scale[s]);
#pragma GCC unroll 8
            for (int j = 0; j < n; ++j) {
                sum[j] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(acc[j]), sum[j]);
            }
        }
        if constexpr (W::has_min) add_mins(sum, tile, x, k);
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) {
            const __m512 d = _mm512_set1_ps(x.d[k / 256 * n + j]);
            _mm512_store_ps(c + 16 * j, _mm512_fmadd_ps(sum[j], d, _mm512_load_ps(c + 16 * j)));
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
