// Integer dot products with AVX-512: one weight row against up to four activation rows, or tiles of
// 16 weight rows, one per lane, against panels of eight.
#pragma once

#include "backends/cpu/csrc/isa/linear_drive.h"
#include "backends/cpu/csrc/isa/linear_vec.h"
#include "backends/cpu/csrc/isa/linear_wide.h"

namespace unladen::cpu::UNLADEN_ISA {

UNLADEN_INLINE __m512i broadcast4(const void *p) { return _mm512_set1_epi32(bits::load<int32_t>(
    static_cast<const uint8_t *>(p))); }

// minus the bias times the sum of a column's q: where the sum of (code * q) starts.
template <int bias_log2>
UNLADEN_INLINE __m512i start(const int32_t *minus) {
    if constexpr (bias_log2 == 0) return _mm512_setzero_si512();
    return _mm512_slli_epi32(_mm512_set1_epi32(*minus), bias_log2);
}

// --- Blocks of 32 ---

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
            for (int j = 0; j < n; ++j) acc[j] = start<W::bias_log2>(x.minus + at + j);
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

// --- Blocks of 256 ---

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
        for (int c = 0; c < C; ++c) {
            sum[c] = _mm512_setzero_ps();
            mins[c] = _mm256_setzero_ps();
        }
        for (int b = 0; b < n_cols / 256; ++b, row += T::block_bytes) {
            add<C>(sum, mins, row, x, b);
        }
        for (int c = 0; c < C; ++c) {
            if constexpr (W::has_min) sum[c] = _mm512_add_ps(sum[c], _mm512_zextps256_ps512(mins[c]));
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
            __m512i pairs = _mm512_maddubs_epi16(w.template codes<j>(), load512(q));
            if constexpr (W::sub == 32) {
                pairs = _mm512_add_epi16(
                    pairs, _mm512_maddubs_epi16(w.template codes<j + 1>(), load512(q + 64)));
            }
            acc[c] = _mm512_dpwssd_epi32(acc[c], pairs, w.template scale<j>());
        }
    }

    static constexpr int rows = 16, tile_k = 256, n_tiles = 2, columns = 256, n_sub = tile_k / W::sub;
    static constexpr int n_mins = W::sub == 32 ? 4 : 16;

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

    static void multiply(float *c, const Tile &tile, const Panel &x, int k, int) {
        constexpr int n = panel_columns;
        const int8_t *q = x.q + size_t(k) * n;
        const int32_t *minus = x.minus + k / 16 * n;
        __m512 sum[n];
        __m512i acc[n];
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) sum[j] = _mm512_setzero_ps();
        for (int s = 0; s < n_sub; ++s, minus += n) {
#pragma GCC unroll 8
            for (int j = 0; j < n; ++j) acc[j] = start<W::bias_log2>(minus + j);
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
        if constexpr (W::has_min) {
            const void *sums[] = {x.pairs + size_t(k) / 32 * n, x.minus + size_t(k) / 16 * n};
            const int32_t *sum32 = static_cast<const int32_t *>(sums[W::sub == 16]);
#pragma GCC unroll 8
            for (int j = 0; j < n; ++j) acc[j] = _mm512_setzero_si512();
#pragma GCC unroll 4
            for (int s = 0; s < n_mins; ++s, sum32 += n) {
                const __m512i min = _mm512_load_si512(tile.min[s]);
#pragma GCC unroll 8
                for (int j = 0; j < n; ++j) {
                    acc[j] = _mm512_dpwssd_epi32(acc[j], min, broadcast4(sum32 + j));
                }
            }
            const __m512 dmin = _mm512_load_ps(tile.dmin);
#pragma GCC unroll 8
            for (int j = 0; j < n; ++j) {
                sum[j] = _mm512_fmadd_ps(dmin, _mm512_cvtepi32_ps(acc[j]), sum[j]);
            }
        }
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) {
            const __m512 d = _mm512_set1_ps(x.d[k / 256 * n + j]);
            _mm512_store_ps(c + 16 * j, _mm512_fmadd_ps(sum[j], d, _mm512_load_ps(c + 16 * j)));
        }
    }
};

template <class Kernel>
void run_int8(const Job &job, int n_rows) {
    if (n_rows > few_rows) {
        run_tiles<Kernel>(job);
    } else {
        run_rows<Kernel>(job);
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
