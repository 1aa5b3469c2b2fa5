// Decoded tiles of sixteen weight rows times columns of a panel of activations.
#pragma once

#include "backends/cpu/csrc/isa/formats/lanes512.h"
#include "backends/cpu/csrc/isa/products/loops.h"

namespace unladen::cpu::UNLADEN_ISA {

// Four codes of each of sixteen rows make a line of a tile.
using Line = uint8_t[64];
UNLADEN_INLINE void put(Line &line, __m512i codes) { _mm512_store_si512(line, codes); }

struct Tile256 : Scales256 {
    alignas(64) Line q[64];
};

// 32 weights of sixteen rows; lines are in the order of k.
struct Tile32 {
    alignas(64) Line q[8];
    alignas(64) float scale[16];
    alignas(64) float min[16];  // used only without a bias
};

template <class T>
UNLADEN_INLINE void decode(Tile32 &tile, Block<T> w, __m512 scale, int first = 0) {
    for (int i = 0; i < 8; ++i) put(tile.q[i], InLanes<T>::line(w, first + i));
    _mm512_store_ps(tile.scale, scale);
    if constexpr (InLanes<T>::bias == 0) _mm512_store_ps(tile.min, InLanes<T>::min(w));
}
template <class T>
UNLADEN_INLINE void decode(Tile256 &tile, Block<T> w) {
#pragma GCC unroll 64
    for (int i = 0; i < 64; ++i) put(tile.q[i], InLanes<T>::line(w, i));
    InLanes<T>::scales(tile, w);
}

// Products of one or two tiles with n neighbouring columns, as integers. Each column's numbers are
// loaded once for both tiles, since loads limit the speed of such products.
template <int tiles, int n>
struct Products {
    __m512i v[tiles][n];

    UNLADEN_INLINE Products() {
#pragma GCC unroll 8
        for (int i = 0; i < tiles * n; ++i) v[i / n][i % n] = _mm512_setzero_si512();
    }
    // first(j): the number from which the sums of column j start.
    template <class First>
    static UNLADEN_INLINE Products from(First first) {
        Products products;
#pragma GCC unroll 8
        for (int i = 0; i < tiles * n; ++i) products.v[i / n][i % n] = first(i % n);
        return products;
    }
    // Adds four codes of each row times four numbers of each column.
    UNLADEN_INLINE void add_line(const __m512i (&w)[tiles], const int8_t *x) {
#pragma GCC unroll 4
        for (int j = 0; j < n; ++j) {
            const __m512i q = broadcast4(x + 4 * j);
#pragma GCC unroll 2
            for (int t = 0; t < tiles; ++t) v[t][j] = _mm512_dpbusd_epi32(v[t][j], w[t], q);
        }
    }
    // Adds pairs of minimums times pairs of sums of activations.
    UNLADEN_INLINE void add_words(const __m512i (&w)[tiles], const int16_t *x) {
#pragma GCC unroll 4
        for (int j = 0; j < n; ++j) {
            const __m512i pair = broadcast4(x + 2 * j);
#pragma GCC unroll 2
            for (int t = 0; t < tiles; ++t) v[t][j] = _mm512_dpwssd_epi32(v[t][j], w[t], pair);
        }
    }
    UNLADEN_INLINE __m512 at(int t, int j) const { return _mm512_cvtepi32_ps(v[t][j]); }
};

// The places of sums: those of tile t begin at c + t * stride, as [column][row].
struct Totals {
    float *c;
    size_t stride;
    UNLADEN_INLINE float *at(int t, int column) const { return c + t * stride + 16 * column; }
};

// Adds the products of minimums to the sums of columns.
template <int sub, int tiles, int n>
UNLADEN_INLINE void add_mins(__m512 (&sum)[tiles][n], const Tile256 *tile, const Panel256 &x, int k,
                             int column) {
    Products<tiles, n> mins;
    const int16_t *minus = (sub == 16 ? x.minus16 : x.minus32) +
                           size_t(k) / sub * panel_columns + 2 * column;
#pragma GCC unroll 8
    for (int p = 0; p < 128 / sub; ++p, minus += 2 * panel_columns) {
        __m512i w[tiles];
        for (int t = 0; t < tiles; ++t) w[t] = _mm512_load_si512(tile[t].min[p]);
        mins.add_words(w, minus);
    }
#pragma GCC unroll 2
    for (int t = 0; t < tiles; ++t) {
        const __m512 dmin = _mm512_load_ps(tile[t].dmin);
#pragma GCC unroll 4
        for (int j = 0; j < n; ++j) sum[t][j] = _mm512_fmadd_ps(dmin, mins.at(t, j), sum[t][j]);
    }
}

// The properties of a format on which products of decoded tiles depend, so that formats can share
// products. Blocks of 32 with bias 0 have minimums. Sums of blocks of 256 start from a bias, one
// for even and one for odd sub-blocks, or the blocks have minimums. For `lacks` see lacking().
template <int code_bias, int code_lacks>
struct Shape32 {
    static constexpr int bias = code_bias, lacks = code_lacks;
};
template <int sub_block>
struct Shape256 {
    static constexpr int sub = sub_block;
};
template <int even_bias, int odd_bias, int code_lacks>
struct BiasedShape256 : Shape256<16> {
    static constexpr int summed_bias = 1, lacks = code_lacks;
    static constexpr int times(int s) { return s % 2 ? odd_bias : even_bias; }
};
template <class T>
using ShapeOf32 = Shape32<InLanes<T>::bias, lacking<InLanes<T>>()>;
template <class A>
constexpr auto shape_of_256() {
    if constexpr (sums_bias<A>) {
        constexpr int bias = A::summed_bias;
        return BiasedShape256<bias * A::times(0), bias * A::times(1), lacking<A>()>();
    } else {
        return Shape256<A::sub>();
    }
}
template <class A>
using ShapeOf256 = decltype(shape_of_256<A>());

// Multiplies columns `column` ... column + n - 1. `beside` is called at 256 / sub regular moments.
template <class A, int tiles, int n, class Beside>
UNLADEN_INLINE void multiply256(Totals c, const Tile256 *tile, const Panel256 &x, int k,
                                int column, Beside &beside) {
    constexpr int sub = A::sub;
    const int8_t *q = x.q + size_t(k) * panel_columns + 4 * column;
    const int32_t *times32 = x.times32 + k / 16 * panel_columns + column;
    __m512 sum[tiles][n];
#pragma GCC unroll 8
    for (int i = 0; i < tiles * n; ++i) sum[i / n][i % n] = _mm512_setzero_ps();
    constexpr int unrolled = sums_bias<A> ? 2 : 1;
#pragma GCC unroll 1
    for (int pair = 0; pair < 256 / sub; pair += unrolled) {
#pragma GCC unroll 2
        for (int odd = 0; odd < unrolled; ++odd) {
            const int s = pair + odd;
            auto products = Products<tiles, n>::from([&](int j) {
                return first_products256<A>(times32 + s * panel_columns + j, odd);
            });
            beside.ask();
#pragma GCC unroll 8
            for (int i = 0; i < sub / 4; ++i, q += 4 * panel_columns) {
                __m512i w[tiles];
                for (int t = 0; t < tiles; ++t) {
                    w[t] = _mm512_load_si512(tile[t].q[s * (sub / 4) + i]);
                }
                products.add_line(w, q);
            }
#pragma GCC unroll 2
            for (int t = 0; t < tiles; ++t) {
                const __m512 scale = _mm512_load_ps(tile[t].scale[s]);
#pragma GCC unroll 4
                for (int j = 0; j < n; ++j) {
                    sum[t][j] = _mm512_fmadd_ps(scale, products.at(t, j), sum[t][j]);
                }
            }
        }
    }
    if constexpr (!sums_bias<A>) add_mins<sub, tiles, n>(sum, tile, x, k, column);
    const float *d = x.d + k / 256 * panel_columns + column;
#pragma GCC unroll 8
    for (int i = 0; i < tiles * n; ++i) {
        float *to = c.at(i / n, column + i % n);
        const __m512 scale = _mm512_set1_ps(d[i % n]);
        _mm512_store_ps(to, _mm512_fmadd_ps(sum[i / n][i % n], scale, _mm512_load_ps(to)));
    }
}

// The same for a Tile of several Tile32. `beside` is called once for each block.
template <class A, int tiles, int n, class Tile, class Beside>
UNLADEN_INLINE void multiply32(Totals c, const Tile *tile, int n_blocks, const Panel32 &x, int k,
                               int column, Beside &beside) {
    const int8_t *q = x.q + size_t(k) * panel_columns + 4 * column;
    size_t at = k / 32 * panel_columns + column;
    __m512 sum[tiles][n];
#pragma GCC unroll 8
    for (int i = 0; i < tiles * n; ++i) {
        sum[i / n][i % n] = _mm512_load_ps(c.at(i / n, column + i % n));
    }
    for (int b = 0; b < n_blocks; ++b, at += panel_columns) {
        auto products = Products<tiles, n>::from(
            [&](int j) { return first_products<A>(x.minus + at + j); });
        beside.ask();
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i, q += 4 * panel_columns) {
            __m512i w[tiles];
            for (int t = 0; t < tiles; ++t) w[t] = _mm512_load_si512(tile[t].block[b].q[i]);
            products.add_line(w, q);
        }
#pragma GCC unroll 2
        for (int t = 0; t < tiles; ++t) {
            const Tile32 &block = tile[t].block[b];
            const __m512 scale = _mm512_load_ps(block.scale);
#pragma GCC unroll 4
            for (int j = 0; j < n; ++j) {
                const __m512 product = _mm512_mul_ps(scale, products.at(t, j));
                sum[t][j] = _mm512_fmadd_ps(product, _mm512_set1_ps(x.d[at + j]), sum[t][j]);
                if constexpr (A::bias == 0) {
                    const __m512 min = _mm512_load_ps(block.min);
                    sum[t][j] = _mm512_fmadd_ps(min, _mm512_set1_ps(x.sum[at + j]), sum[t][j]);
                }
            }
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < tiles * n; ++i) {
        _mm512_store_ps(c.at(i / n, column + i % n), sum[i / n][i % n]);
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
