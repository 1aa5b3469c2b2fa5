// Tiles of sixteen weight rows with AVX2 and NEON. Codes are decoded row by row and then dealt:
// four codes of each of sixteen rows are side by side, as are four activations of each column in a
// panel.
#pragma once

#include "backends/cpu/csrc/isa/formats/codes.h"
#include "backends/cpu/csrc/isa/products/lines.h"
#include "backends/cpu/csrc/isa/products/loops.h"

namespace unladen::cpu::UNLADEN_ISA {

// The number that makes codes of T suit the level's products: it is added to each code and
// subtracted again through sums of activations.
template <class T>
constexpr int bias_of = lines_are_unsigned && !Codes<T>::is_signed ? Codes<T>::bias : 0;

// Whether codes are signed and products need unsigned ones; a tile then has Flips, too.
template <class T>
constexpr bool flips = lines_are_unsigned && Codes<T>::is_signed;

struct NoFlips {};

// The properties of a format on which products of tiles depend, so that formats can share products.
template <bool are_flipped, int code_bias, bool with_min, int sub_block, int most>
struct Shape {
    static constexpr bool flips = are_flipped, has_min = with_min;
    static constexpr int bias = code_bias, sub = sub_block, max_code = most;
};
// The largest code that needs no more bits in sums.
constexpr int rounded_max_code(int code) {
    return code <= 16 ? 16 : code <= 32 ? 32 : code <= 64 ? 64 : 127;
}
template <class T>
constexpr auto shape_of() {
    using W = Codes<T>;
    constexpr int most = rounded_max_code(W::max_code);
    if constexpr (T::block_size == 256)
        return Shape<flips<T>, bias_of<T>, W::has_min, W::sub, most>();
    else
        return Shape<flips<T>, 0, W::has_min || bias_of<T> != 0, 32, most>();
}
template <class T>
using ShapeOf = decltype(shape_of<T>());

// 256 weights of sixteen rows, of blocks of 256: w = d * scale * (code - bias) - dmin * min.
template <bool are_flipped>
struct TileOf256 : Choose<are_flipped, Flips<64>, NoFlips> {
    alignas(64) Line q[64];  // in the order of k
    Pairs scale[8];          // of sixteens 2 i and 2 i + 1
    Pairs min[8];            // the same; if 32 weights share one, of their runs 2 i and 2 i + 1
    alignas(64) float d[16], dmin[16];
};

// 32 weights of sixteen rows, of a block of 32: w = scale * code + min.
template <bool are_flipped>
struct TileOf32 : Choose<are_flipped, Flips<8>, NoFlips> {
    alignas(64) Line q[8];
    alignas(64) float scale[16], min[16];
};
// 256 of them.
template <bool are_flipped>
struct EightTiles32 {
    TileOf32<are_flipped> block[8];
};

template <class T>
using Tile256 = TileOf256<flips<T>>;
template <class T>
using Tile32 = TileOf32<flips<T>>;

// Removes the doubles from pairs: words 0 and 0, 2 and 2 ... become words 0 and 2, 4 and 6 ...
inline void every_second(Pairs (&words)[8]) {
    for (int p = 0; p < 4; ++p) {
        for (int r = 0; r < 16; ++r) {
            words[p].of[r][0] = words[2 * p].of[r][0];
            words[p].of[r][1] = words[2 * p + 1].of[r][0];
        }
    }
}

template <class T>
constexpr bool has_dealt_header = false;
template <class T>
    requires requires(Tile256<T> &tile) { Codes<T>::deal_header(tile, 0, nullptr, 0); }
constexpr bool has_dealt_header<T> = true;

template <class T>
void deal256(Tile256<T> &tile, Slice slice) {
    using W = Codes<T>;
    for (int half = 0; half < 2; ++half) {
        const uint8_t *p = slice.p + 8 * half * slice.stride;
        const auto row = [=](int r) { return W(p + r * slice.stride); };
        const W rows[8] = {row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)};
        Bytes32 dealt[8];
        const auto deal_all = [&](auto *to, auto of_row) {
#pragma GCC unroll 8
            for (int r = 0; r < 8; ++r) dealt[r] = of_row(rows[r]);
            deal(to, half, dealt);
        };
        if constexpr (requires { DealtFirst<T>::lines; }) {
            DealtFirst<T>::lines(tile.q, half, p, slice.stride);
        } else {
            for (int s = 0; s < 8; ++s) {
                deal_all(tile.q + 8 * s, [=](const W &w) -> Bytes32 {
                    if constexpr (lines_are_unsigned || W::bias == 0)
                        return w.codes(s);
                    else
                        return w.codes(s).less(W::bias);
                });
            }
        }
        if constexpr (has_dealt_header<T>) {
            Codes<T>::deal_header(tile, half, p, slice.stride);
            continue;
        }
        deal_all(tile.scale, [](const W &w) { return w.scales().bytes(); });
        if constexpr (W::has_min) {
            deal_all(tile.min, [](const W &w) { return w.mins().bytes(); });
        }
        for (int r = 0; r < 8; ++r) {
            tile.d[8 * half + r] = rows[r].d();
            if constexpr (W::has_min) tile.dmin[8 * half + r] = rows[r].dmin();
        }
    }
    if constexpr (W::has_min && W::sub == 32 && !has_dealt_header<T>) every_second(tile.min);
    if constexpr (flips<T>) tile.template split<W>(tile.q, tile.scale);
}

// Weights 32 i and on of a block.
template <class T>
void deal32(Tile32<T> &tile, Slice slice, int i) {
    for (int half = 0; half < 2; ++half) {
        const uint8_t *p = slice.p + 8 * half * slice.stride;
        if constexpr (requires { DealtFirst<T>::lines; }) {
            DealtFirst<T>::lines(tile.q, half, p, slice.stride);
        } else {
            Bytes32 dealt[8];
#pragma GCC unroll 8
            for (int r = 0; r < 8; ++r) {
                const uint8_t *b = p + r * slice.stride;
                dealt[r] = bias_of<T> ? codes_of<T>(b, i) : signed_codes<T>(b, i);
            }
            deal(tile.q, half, dealt);
        }
        float *scale = tile.scale + 8 * half, *min = tile.min + 8 * half;
        if constexpr (!requires { Codes<T>::scale_is_power; }) {
            deal_halves(scale, p, slice.stride);
        } else {
            for (int r = 0; r < 8; ++r) scale[r] = Codes<T>::d(p + r * slice.stride);
        }
        if constexpr (Codes<T>::has_min) {
            deal_halves(min, p + 2, slice.stride);
        } else {
            for (int r = 0; r < 8; ++r) min[r] = -scale[r] * float(bias_of<T>);
        }
    }
    if constexpr (flips<T>) tile.split(tile.q);
}

// c holds sums as [column][row].
template <class S, int n>
UNLADEN_INLINE void multiply256(float *c, const TileOf256<S::flips> &tile, const Panel256 &x, int k,
                                int column, Ahead ahead) {
    const int8_t *q = x.q + size_t(k) * panel_columns + panel_k * column;
    const int16_t *minus16 = x.minus16 + size_t(k) / 16 * panel_columns + 2 * column;
    LineSums<n> sums;
    sums.clear();
    if constexpr (S::bias > 0) {
        for (int p = 0; p < 8; ++p) sums.add(tile.scale[p], minus16 + 2 * p * panel_columns);
        sums.multiply(S::bias);
    }
    if constexpr (S::flips) sums.start(tile.start);
    for (int s = 0; s < 8; ++s, q += 32 * panel_columns) {
        ahead.ask();
        if constexpr (S::flips) {
            sums.template add<S>(tile.q + 8 * s, tile.flip + 8 * s, q, tile.scale[s]);
        } else {
            sums.template add<S>(tile.q + 8 * s, q, tile.scale[s]);
        }
    }
    const float *d = x.d + k / 256 * panel_columns + column;
    sums.add_to(c, tile.d, d);
    if constexpr (S::has_min) {
        LineSums<n> mins;
        mins.clear();
        constexpr int n_pairs = 128 / S::sub;
        const int16_t *minus = S::sub == 16
            ? minus16 : x.minus32 + size_t(k) / 32 * panel_columns + 2 * column;
        for (int p = 0; p < n_pairs; ++p) mins.add(tile.min[p], minus + 2 * p * panel_columns);
        mins.add_to(c, tile.dmin, d);
    }
}

template <class S, int n>
UNLADEN_INLINE void multiply32(float *c, const TileOf32<S::flips> *tile, int n_blocks,
                               const Panel32 &x, int k, int column, Ahead ahead) {
    const int8_t *q = x.q + size_t(k) * panel_columns + panel_k * column;
    const float *d = x.d + k / 32 * panel_columns + column;
    const float *x_sum = x.sum + k / 32 * panel_columns + column;
    for (int b = 0; b < n_blocks; ++b, ++tile) {
        ahead.ask();
        LineSums<n> sums;
        sums.clear();
        if constexpr (S::flips) {
            sums.start(tile->start);
            sums.template add<S>(tile->q, tile->flip, q);
        } else {
            sums.template add<S>(tile->q, q);
        }
        sums.add_to(c, tile->scale, d, S::has_min ? tile->min : nullptr, x_sum);
        q += 32 * panel_columns, d += panel_columns, x_sum += panel_columns;
    }
}

// For run_tiles: sixteen rows, 256 weights of each at a time.
struct Dealt {
    static_assert(columns_at_once == 4);
    static constexpr int rows = 16, tile_k = 256, n_tiles = 2, columns = 256;
    static constexpr int occasions = tile_k / 32;
    static constexpr size_t panel_bytes = tile_k * panel_columns;
    template <class Panel>
    static UNLADEN_INLINE const uint8_t *codes_at(const Panel &x, int k) {
        return reinterpret_cast<const uint8_t *>(x.q + size_t(k) * panel_columns);
    }
    // Calls body<n>(column) for a panel's first n_columns columns, or one more, which is zero.
    // Registers hold the sums of n columns at once.
    template <class Body>
    static UNLADEN_INLINE void each_columns(int n_columns, Body body) {
        int column = 0;
#pragma GCC unroll 1
        for (; n_columns - column > 2; column += columns_at_once) {
            body.template operator()<columns_at_once>(column);
        }
        if (column < n_columns) body.template operator()<2>(column);
    }
};

template <class S>
struct DealtProducts256 : Dealt {
    using Tile = TileOf256<S::flips>;
    using Panel = Panel256;
    static void multiply_columns(float *c, const Tile &tile, const Panel &x, int k, int,
                                 int n_columns, Ahead ahead) {
        each_columns(n_columns, [&]<int n>(int column) {
            multiply256<S, n>(c + rows * column, tile, x, k, column, column ? Ahead{} : ahead);
        });
    }
};
template <class T>
struct Dealt256 : DealtProducts256<ShapeOf<T>> {
    using Type = T;
    static void unpack(Tile256<T> &tile, Slice slice, int) { deal256<T>(tile, slice); }
};

template <class S>
struct DealtProducts32 : Dealt {
    using Tile = EightTiles32<S::flips>;
    using Panel = Panel32;
    static void multiply_columns(float *c, const Tile &tile, const Panel &x, int k, int n_k,
                                 int n_columns, Ahead ahead) {
        each_columns(n_columns, [&]<int n>(int column) {
            multiply32<S, n>(c + rows * column, tile.block, n_k / 32, x, k, column,
                             column ? Ahead{} : ahead);
        });
    }
};
template <class T>
struct Dealt32 : DealtProducts32<ShapeOf<T>> {
    using Type = T;
    static void unpack(EightTiles32<flips<T>> &tile, Slice slice, int n_k) {
        constexpr int n_each = T::block_size / 32;
        for (int b = 0; b < n_k / 32; ++b) {
            const uint8_t *block = slice.p + size_t(b / n_each) * T::block_bytes;
            deal32<T>(tile.block[b], {block, slice.stride}, b % n_each);
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
