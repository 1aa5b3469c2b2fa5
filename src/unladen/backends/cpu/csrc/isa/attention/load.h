// Loads a tile of K or V from the cache into the layout of the products.
#pragma once

#include "backends/cpu/csrc/isa/attention/kv.h"
#include "backends/cpu/csrc/isa/attention/scores.h"

namespace unladen::cpu::UNLADEN_ISA {

// The rows of a tile of keys, found through the block table: those of keys [first, last), counted
// from the tile's own.
struct TileRows {
    // Entries before `first` are copies of the first row's; those from `last` on are any address
    // that may be prefetched.
    const uint8_t *row[tile_keys];
    int first, last;

    TileRows(const HeadRows &head, const int32_t *blocks, int start, int from, int to) {
        first = from > start ? from - start : 0;
        last = start < to ? least(tile_keys, to - start) : 0;
        int at = (start + first) / head.block_tokens, slot = (start + first) % head.block_tokens;
        for (int i = first; i < last; at++, slot = 0) {
            const uint8_t *next = head.row(blocks[at], slot);
            const int end = least(last, i + head.block_tokens - slot);
            for (; i < end; i++, next += head.row_bytes) row[i] = next;
        }
        for (int i = 0; i < first; i++) row[i] = row[first];
        for (int i = last; i < tile_keys; i++) row[i] = head.base;
    }

    // Prefetches the cache line with number d of n rows into L2. L1 can wait for few lines at a
    // time, and a core of Zen 4 reads half as fast when it waits for as many.
    template <KVType type>
    void prefetch(int first, int n, int d) const {
        const size_t at = row_bytes(type, d);
        for (int i = first; i < first + n; i++) __builtin_prefetch(row[i] + at, 0, 2);
    }

    // Prefetches all rows.
    void prefetch_all(size_t row_bytes) const {
        for (int i = first; i < last; i++)
            for (size_t at = 0; at < row_bytes; at += 64) __builtin_prefetch(row[i] + at, 0, 2);
    }
};

// How many numbers of a row fill a cache line (q8_0: about).
template <KVType type>
inline constexpr int numbers_per_line = type == KVType::f32 ? 16 : 32;

// A tile's keys, transposed, with zeros up to the end of a register block: as float32 in `wide`
// [k_dim][tile_keys], or for a float16 cache as float16 in `narrow`. Loading a tile prefetches the
// next tile's rows in pieces. All at once they would fill the queue of cache misses and stop the
// arithmetic.
struct KeyTile {
    float *wide;
    uint16_t *narrow;
};

template <KVType type>
static void load_keys(const KeyTile &k, const TileRows &tile, const TileRows &next, int k_dim) {
    for (int key = 0; key < tile.last || key % (block_vectors * lanes); key += lanes) {
        const int n = least(lanes, tile.last - key);
        for (int d = 0; d < k_dim; d += lanes) {
            const int width = least(lanes, k_dim - d);
            if (d % numbers_per_line<type> == 0) next.prefetch<type>(key, lanes, d);
            vec t[lanes] = {};
            for (int i = 0; i < n; i++) t[i] = load_row<type>(tile.row[key + i], d, width);
            transpose(t);
            for (int i = 0; i < lanes; i++) store(k.wide + (size_t)(d + i) * tile_keys + key, t[i]);
        }
    }
}

// Eight dimensions of 8 * corners keys.
static inline void load_square(hvec *t, const uint8_t *const *row, int d) {
    for (int i = 0; i < 8; i++) {
        const uint16_t *from[corners];
        for (int c = 0; c < corners; c++) from[c] = (const uint16_t *)row[i + 8 * c] + d;
        t[i] = load_corners(from);
    }
}

// The same for n keys and `width` dimensions, with zeros for the others.
static inline void load_square_edge(hvec *t, const uint8_t *const *row, int d, int n, int width) {
    uint16_t copy[8 * corners][8] = {};
    const uint8_t *copied[8 * corners];
    for (int i = 0; i < 8 * corners; i++) {
        copied[i] = (const uint8_t *)copy[i];
        if (i < n) __builtin_memcpy(copy[i], (const uint16_t *)row[i] + d, (size_t)width * 2);
    }
    load_square(t, copied, 0);
}

template <>
void load_keys<KVType::f16>(const KeyTile &k, const TileRows &tile, const TileRows &next,
                            int k_dim) {
    constexpr int step = 8 * corners;
    for (int key = 0; key < tile.last || key % (block_vectors * lanes); key += step) {
        for (int d = 0; d < k_dim; d += 8) {
            const int width = least(8, k_dim - d);
            if (d % numbers_per_line<KVType::f16> == 0) next.prefetch<KVType::f16>(key, step, d);
            hvec t[8];
            if (key + step <= tile.last && width == 8) {
                load_square(t, tile.row + key, d);
            } else {
                load_square_edge(t, tile.row + key, d, tile.last - key, width);
            }
            transpose_f16(t);
            for (int i = 0; i < 8; i++) {
                store_f16(k.narrow + (size_t)(d + i) * tile_keys + key, t[i]);
            }
        }
    }
}

static void widen_keys(const KeyTile &k, int k_dim) {
    for (int i = 0; i < k_dim * tile_keys; i += lanes) store(k.wide + i, load_f16(k.narrow + i));
}

// v [tile_keys][stride]: the tile's values, zeros past v_dim.
template <KVType type>
static void load_values(float *v, const TileRows &tile, const TileRows &next, int v_dim,
                        int stride) {
    v += (size_t)tile.first * stride;
    for (int key = tile.first; key < tile.last; key++, v += stride) {
        const uint8_t *row = tile.row[key];
        for (int d = 0; d < v_dim; d += numbers_per_line<type>) next.prefetch<type>(key, 1, d);
        int d = 0;
        for (; d + lanes <= v_dim; d += lanes) store(v + d, load_row<type>(row, d, lanes));
        if (d < v_dim) store(v + d, load_row<type>(row, d, v_dim - d));
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
