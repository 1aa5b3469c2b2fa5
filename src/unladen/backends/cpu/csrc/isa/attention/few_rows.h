// Scores of a few rows of queries, with keys as they are in the cache: a vector holds several
// dimensions. Transposing a tile of keys, as for many rows, would cost more than the products.
#pragma once

#include "backends/cpu/csrc/isa/attention/load.h"

namespace unladen::cpu::UNLADEN_ISA {

// How many keys' products with all rows of a block are summed in registers at once.
inline constexpr int keys_at_once = block_vectors;

// Lanes 4 g .. 4 g + 3 of the result are the sums over lanes 4 g .. 4 g + 3 of t[0], t[1], t[2] and
// t[3].
template <int... i>
static inline vec sum_quads(const vec *t, Seq<i...>) {
    constexpr int n = lanes;
    const auto pairs = [](vec a, vec b) {
        return __builtin_shufflevector(a, b, (i / 4 * 4 + i % 4 / 2 + i % 2 * n)...)
            + __builtin_shufflevector(a, b, (i / 4 * 4 + i % 4 / 2 + i % 2 * n + 2)...);
    };
    const vec a = pairs(t[0], t[1]), b = pairs(t[2], t[3]);
    return __builtin_shufflevector(a, b, (i % 4 < 2 ? i : i - 2 + n)...)
        + __builtin_shufflevector(a, b, (i % 4 < 2 ? i + 2 : i + n)...);
}

// Adds up the results of sum_quads: lane i of the result is the whole sum of the i-th of `lanes`
// vectors, four of which are in each of t[0 .. lanes / 4).
template <int n = lanes / 4, int... i>
static inline vec sum_groups(vec *t, Seq<i...> all) {
    if constexpr (n == 1) {
        return t[0];
    } else {
        constexpr int half = lanes / 2;
        for (int j = 0; j < n / 2; j++) {
            const vec a = t[2 * j], b = t[2 * j + 1];
            // Groups 0, 2 .. of a and then of b, plus groups 1, 3 .. of a and then of b.
            t[j] = __builtin_shufflevector(
                       a, b, (i % half / 4 * 8 + i % 4 + (i < half ? 0 : lanes))...)
                + __builtin_shufflevector(
                       a, b, (i % half / 4 * 8 + i % 4 + 4 + (i < half ? 0 : lanes))...);
        }
        return sum_groups<n / 2>(t, all);
    }
}

// acc[r][first + j] = sum over dimensions, by lanes, of row r with the j-th of the keys at `row`.
// q: [rows][stride], zeros from k_dim on.
template <int rows, KVType type>
static inline void dot_keys(vec (*acc)[4], int first, const float *q, int stride,
                            const uint8_t *const *row, int k_dim) {
    vec sums[rows][keys_at_once] = {};
    for (int d = 0; d < k_dim; d += lanes) {
        vec key[keys_at_once];
        for (int j = 0; j < keys_at_once; j++) {
            key[j] = load_row<type>(row[j], d, least(lanes, k_dim - d));
        }
        for (int r = 0; r < rows; r++) {
            const vec factor = load(q + (size_t)r * stride + d);
            for (int j = 0; j < keys_at_once; j++) sums[r][j] = fma(factor, key[j], sums[r][j]);
        }
    }
    for (int r = 0; r < rows; r++) {
        for (int j = 0; j < keys_at_once; j++) acc[r][first + j] = sums[r][j];
    }
}

// s[r][key] for the keys [first, last) of a tile, rounded to whole vectors. s: [rows][tile_keys].
template <int rows, KVType type>
static inline void score_few(float *s, const float *q, int stride, const TileRows &tile,
                             const TileRows &next, int k_dim, Span keys) {
    for (int at = keys.first - keys.first % lanes; at < keys.last; at += lanes) {
        vec quads[rows][lanes / 4];
        for (int four = 0; four < lanes; four += 4) {
            vec acc[rows][4];
            for (int j = 0; j < 4; j += keys_at_once) {
                dot_keys<rows, type>(acc, j, q, stride, tile.row + at + four + j, k_dim);
            }
            for (int d = 0; d < k_dim; d += numbers_per_line<type>) {
                next.prefetch<type>(at + four, 4, d);
            }
            for (int r = 0; r < rows; r++) quads[r][four / 4] = sum_quads(acc[r], LaneNumbers{});
        }
        for (int r = 0; r < rows; r++) {
            store(s + r * tile_keys + at, sum_groups(quads[r], LaneNumbers{}));
        }
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
