// Decoded tiles of sixteen weight rows times the first n columns of a panel of activations.
#pragma once

#include "backends/cpu/csrc/isa/linear_across256.h"
#include "backends/cpu/csrc/isa/linear_across32.h"
#include "backends/cpu/csrc/isa/linear_drive.h"

namespace unladen::cpu::UNLADEN_ISA {

// acc[j] += what the lines at q are times what column j at x holds.
template <int n_lines, int n>
UNLADEN_INLINE void add_lines(__m512i (&acc)[n], const Line *q, const int8_t *x) {
#pragma GCC unroll 8
    for (int i = 0; i < n_lines; ++i, x += 4 * panel_columns) {
        const __m512i w = _mm512_load_si512(q[i]);
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) acc[j] = _mm512_dpbusd_epi32(acc[j], w, broadcast4(x + 4 * j));
    }
}

template <int n>
UNLADEN_INLINE void clear(__m512i (&acc)[n]) {
#pragma GCC unroll 8
    for (int j = 0; j < n; ++j) acc[j] = _mm512_setzero_si512();
}

// c holds sums as [column][row].
template <int sub, int n>
void multiply256(float *c, const Tile256 &tile, const Panel256 &x, int k, Ahead ahead) {
    const int8_t *q = x.q + size_t(k) * panel_columns;
    __m512 sum[n];
#pragma GCC unroll 8
    for (int j = 0; j < n; ++j) sum[j] = _mm512_setzero_ps();
    for (int s = 0; s < 256 / sub; ++s, q += sub * panel_columns) {
        __m512i acc[n];
        clear(acc);
        ahead.ask();
        add_lines<sub / 4>(acc, tile.q + s * (sub / 4), q);
        const __m512 scale = _mm512_load_ps(tile.scale[s]);
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) {
            sum[j] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(acc[j]), sum[j]);
        }
    }
    __m512i acc[n];
    clear(acc);
    const int16_t *minus = (sub == 16 ? x.minus16 : x.minus32) + size_t(k) / sub * panel_columns;
#pragma GCC unroll 8
    for (int p = 0; p < 128 / sub; ++p, minus += 2 * panel_columns) {
        const __m512i min = _mm512_load_si512(tile.min[p]);
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) {
            acc[j] = _mm512_dpwssd_epi32(acc[j], min, broadcast4(minus + 2 * j));
        }
    }
    const __m512 dmin = _mm512_load_ps(tile.dmin);
    const float *d = x.d + k / 256 * panel_columns;
#pragma GCC unroll 8
    for (int j = 0; j < n; ++j) {
        sum[j] = _mm512_fmadd_ps(dmin, _mm512_cvtepi32_ps(acc[j]), sum[j]);
        const __m512 before = _mm512_load_ps(c + 16 * j);
        _mm512_store_ps(c + 16 * j, _mm512_fmadd_ps(sum[j], _mm512_set1_ps(d[j]), before));
    }
}

template <int n>
void multiply32(float *c, const Tile32 *tile, int n_blocks, const Panel32 &x, int k,
                Ahead ahead) {
    const int8_t *q = x.q + size_t(k) * panel_columns;
    const float *d = x.d + k / 32 * panel_columns, *x_sum = x.sum + k / 32 * panel_columns;
    __m512 sum[n];
#pragma GCC unroll 8
    for (int j = 0; j < n; ++j) sum[j] = _mm512_load_ps(c + 16 * j);
    for (int b = 0; b < n_blocks; ++b, ++tile) {
        __m512i acc[n];
        clear(acc);
        ahead.ask();
        add_lines<8>(acc, tile->q, q);
        const __m512 scale = _mm512_load_ps(tile->scale), min = _mm512_load_ps(tile->min);
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) {
            const __m512 product = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(acc[j]));
            sum[j] = _mm512_fmadd_ps(product, _mm512_set1_ps(d[j]), sum[j]);
            sum[j] = _mm512_fmadd_ps(min, _mm512_set1_ps(x_sum[j]), sum[j]);
        }
        q += 32 * panel_columns, d += panel_columns, x_sum += panel_columns;
    }
#pragma GCC unroll 8
    for (int j = 0; j < n; ++j) _mm512_store_ps(c + 16 * j, sum[j]);
}

}  // namespace unladen::cpu::UNLADEN_ISA
