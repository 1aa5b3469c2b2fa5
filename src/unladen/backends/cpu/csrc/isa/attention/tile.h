// The two products of attention over a tile of keys, in blocks of registers. Every number of a
// result is one chain of FMAs in the order of dimensions or keys, so it doesn't depend on the rows
// that are computed with it.
#pragma once

#include "backends/cpu/csrc/isa/simd/float.h"

namespace unladen::cpu::UNLADEN_ISA {

// How many keys go through the online softmax together.
inline constexpr int tile_keys = 64;
// The query rows and vectors of a register block: 24 of 32 registers, or 12 of 16, hold sums.
inline constexpr int block_rows = 6;
#if defined(__AVX512F__) || defined(UNLADEN_NEON)
inline constexpr int block_vectors = 4;
#else
inline constexpr int block_vectors = 2;
#endif

// Loads `lanes` numbers of a tile, kept as float32 or float16.
static inline vec load_any(const float *p) { return load(p); }
static inline vec load_any(const uint16_t *p) { return load_f16(p); }

// s[r][key] = sum_d q[d][r] k[d][key] for keys [first, last), rounded to whole register blocks.
// q: [k_dim][rows], k: [k_dim][tile_keys], s: [rows][tile_keys].
template <int rows, typename T>
static inline void score_block(float *s, const float *q, const T *k, int k_dim, int first,
                               int last) {
    constexpr int step = block_vectors * lanes;
    for (int at = first - first % step; at < last; at += step) {
        vec acc[rows][block_vectors] = {};
        for (int d = 0; d < k_dim; d++) {
            vec key[block_vectors];
            for (int c = 0; c < block_vectors; c++) {
                key[c] = load_any(k + (size_t)d * tile_keys + at + c * lanes);
            }
            for (int r = 0; r < rows; r++) {
                const vec factor = splat(q[d * rows + r]);
                for (int c = 0; c < block_vectors; c++) acc[r][c] = fma(factor, key[c], acc[r][c]);
            }
        }
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < block_vectors; c++) {
                store(s + r * tile_keys + at + c * lanes, acc[r][c]);
            }
        }
    }
}

// o[r] = o[r] * keep[r] + sum over keys [first, last) of p[r][key] v[key], for `vectors` vectors of
// columns from `at` on. o: [rows][stride], p: [rows][tile_keys]; v(key, column) loads a vector.
template <int rows, int vectors, typename Values>
static inline void weigh_columns(float *o, const float *keep, const float *p, Values v, int at,
                                 int stride, int first, int last) {
    o += at;
    vec acc[rows][vectors];
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < vectors; c++) {
            acc[r][c] = load(o + (size_t)r * stride + c * lanes) * keep[r];
        }
    }
    for (int key = first; key < last; key++) {
        vec value[vectors];
        for (int c = 0; c < vectors; c++) value[c] = v(key, at + c * lanes);
        for (int r = 0; r < rows; r++) {
            const vec factor = splat(p[r * tile_keys + key]);
            for (int c = 0; c < vectors; c++) acc[r][c] = fma(factor, value[c], acc[r][c]);
        }
    }
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < vectors; c++) store(o + (size_t)r * stride + c * lanes, acc[r][c]);
    }
}

template <int rows, typename Values>
static inline void weigh_block(float *o, const float *keep, const float *p, Values v, int stride,
                               int first, int last) {
    int at = 0;
    for (; at + block_vectors * lanes <= stride; at += block_vectors * lanes) {
        weigh_columns<rows, block_vectors>(o, keep, p, v, at, stride, first, last);
    }
    for (; at < stride; at += lanes) {
        weigh_columns<rows, 1>(o, keep, p, v, at, stride, first, last);
    }
}

// Calls body(Rows<n>) for the n of 1 .. block_rows that is n_rows.
template <int n>
struct Rows {
    static constexpr int value = n;
};

template <int n = block_rows, typename Body>
static inline void with_rows(int n_rows, Body body) {
    if constexpr (n > 1) {
        if (n_rows < n) return with_rows<n - 1>(n_rows, body);
    }
    body(Rows<n>{});
}

}  // namespace unladen::cpu::UNLADEN_ISA
