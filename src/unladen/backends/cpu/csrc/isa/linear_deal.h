// Tiles of sixteen weight rows below AVX-512. A row's codes are decoded as for one activation row,
// then those of sixteen rows are dealt: four codes of each row lie side by side, as four
// activations of each column do in a panel.
#pragma once

#include "backends/cpu/csrc/isa/linear_codes_grid.h"
#if defined(__AVX2__)
#include "backends/cpu/csrc/isa/linear_deal_avx2.h"
#endif
#include "backends/cpu/csrc/isa/linear_drive.h"
#include "backends/cpu/csrc/isa/linear_lines.h"

namespace unladen::cpu::UNLADEN_ISA {

// What makes the codes of T fit the level's products: added to each code, and taken off again
// through sums of activations.
template <class T>
constexpr int bias_of = lines_are_unsigned && !Codes<T>::is_signed ? Codes<T>::bias : 0;

// Signed codes where products want unsigned ones: a tile also has what Flips holds.
template <class T>
constexpr bool flips = lines_are_unsigned && Codes<T>::is_signed;

struct NoFlips {};

// 256 weights of sixteen rows, of blocks of 256: w = d * scale * (code - bias) - dmin * min.
template <class T>
struct Tile256 : Choose<flips<T>, Flips<64>, NoFlips> {
    alignas(64) Line q[64];  // those of rising k
    Pairs scale[8];          // of the 16 weights 2 i and 2 i + 1
    Pairs min[8];            // likewise; where 32 share one, of the 32 weights 2 i and 2 i + 1
    alignas(64) float d[16], dmin[16];
};

// 32 weights of sixteen rows, of a block of 32: w = scale * code + min.
template <class T>
struct Tile32 : Choose<flips<T>, Flips<8>, NoFlips> {
    alignas(64) Line q[8];
    alignas(64) float scale[16], min[16];
};

// Words 0 and 0, 2 and 2 and so on become words 0 and 2, 4 and 6.
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
    requires requires(Tile256<T> &tile) { DealtFirst<T>::header(tile, 0, nullptr, 0); }
constexpr bool has_dealt_header<T> = true;

// Whether blocks of 32 begin with a float16 that is their scale.
template <class T>
constexpr bool scale_is_half = true;
template <>
constexpr bool scale_is_half<MXFP4> = false;

template <class T>
void deal256(Tile256<T> &tile, Part part) {
    using W = Codes<T>;
    for (int half = 0; half < 2; ++half) {
        const uint8_t *p = part.p + 8 * half * part.stride;
        const auto row = [=](int r) { return W(p + r * part.stride); };
        const W rows[8] = {row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)};
        Bytes32 dealt[8];
        const auto deal_all = [&](auto *to, auto of_row) {
#pragma GCC unroll 8
            for (int r = 0; r < 8; ++r) dealt[r] = of_row(rows[r]);
            deal(to, half, dealt);
        };
        if constexpr (requires { DealtFirst<T>::lines; }) {
            DealtFirst<T>::lines(tile.q, half, p, part.stride);
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
            DealtFirst<T>::header(tile, half, p, part.stride);
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

template <class T>
void deal32(Tile32<T> &tile, Part part) {
    for (int half = 0; half < 2; ++half) {
        const uint8_t *p = part.p + 8 * half * part.stride;
        if constexpr (requires { DealtFirst<T>::lines; }) {
            DealtFirst<T>::lines(tile.q, half, p, part.stride);
        } else {
            Bytes32 dealt[8];
#pragma GCC unroll 8
            for (int r = 0; r < 8; ++r) {
                const uint8_t *b = p + r * part.stride;
                dealt[r] = bias_of<T> ? Codes<T>::codes(b) : signed_codes<T>(b);
            }
            deal(tile.q, half, dealt);
        }
        float *scale = tile.scale + 8 * half, *min = tile.min + 8 * half;
        if constexpr (scale_is_half<T>) {
            deal_halves(scale, p, part.stride);
        } else {
            for (int r = 0; r < 8; ++r) scale[r] = Codes<T>::d(p + r * part.stride);
        }
        if constexpr (Codes<T>::has_min) {
            deal_halves(min, p + 2, part.stride);
        } else {
            for (int r = 0; r < 8; ++r) min[r] = -scale[r] * float(bias_of<T>);
        }
    }
    if constexpr (flips<T>) tile.split(tile.q);
}

// c holds sums as [column][row].
template <class T, int n>
UNLADEN_INLINE void multiply256(float *c, const Tile256<T> &tile, const Panel256 &x, int k,
                                int column, Ahead ahead) {
    using W = Codes<T>;
    const int8_t *q = x.q + size_t(k) * panel_columns + panel_k * column;
    const int16_t *minus16 = x.minus16 + size_t(k) / 16 * panel_columns + 2 * column;
    LineSums<n> sums;
    sums.clear();
    if constexpr (bias_of<T> > 0) {
        for (int p = 0; p < 8; ++p) sums.add(tile.scale[p], minus16 + 2 * p * panel_columns);
        sums.multiply(bias_of<T>);
    }
    if constexpr (flips<T>) sums.start(tile.start);
    for (int s = 0; s < 8; ++s, q += 32 * panel_columns) {
        ahead.ask();
        if constexpr (flips<T>) {
            sums.template add<W>(tile.q + 8 * s, tile.flip + 8 * s, q, tile.scale[s]);
        } else {
            sums.template add<W>(tile.q + 8 * s, q, tile.scale[s]);
        }
    }
    const float *d = x.d + k / 256 * panel_columns + column;
    sums.add_to(c, tile.d, d);
    if constexpr (W::has_min) {
        LineSums<n> mins;
        mins.clear();
        constexpr int n_pairs = 128 / W::sub;
        const int16_t *minus = W::sub == 16
            ? minus16 : x.minus32 + size_t(k) / 32 * panel_columns + 2 * column;
        for (int p = 0; p < n_pairs; ++p) mins.add(tile.min[p], minus + 2 * p * panel_columns);
        mins.add_to(c, tile.dmin, d);
    }
}

template <class T, int n>
UNLADEN_INLINE void multiply32(float *c, const Tile32<T> *tile, int n_blocks, const Panel32 &x,
                               int k, int column, Ahead ahead) {
    const int8_t *q = x.q + size_t(k) * panel_columns + panel_k * column;
    const float *d = x.d + k / 32 * panel_columns + column;
    const float *x_sum = x.sum + k / 32 * panel_columns + column;
    for (int b = 0; b < n_blocks; ++b, ++tile) {
        ahead.ask();
        LineSums<n> sums;
        sums.clear();
        if constexpr (flips<T>) {
            sums.start(tile->start);
            sums.template add<Codes<T>>(tile->q, tile->flip, q);
        } else {
            sums.template add<Codes<T>>(tile->q, q);
        }
        constexpr bool has_min = Codes<T>::has_min || bias_of<T> > 0;
        sums.add_to(c, tile->scale, d, has_min ? tile->min : nullptr, x_sum);
        q += 32 * panel_columns, d += panel_columns, x_sum += panel_columns;
    }
}

// For run_tiles: sixteen rows, 256 weights of each at a time.
struct Dealt {
    static constexpr int rows = 16, tile_k = 256, n_tiles = 2, columns = 256;
    static constexpr int occasions = tile_k / 32;
    static constexpr size_t panel_bytes = tile_k * panel_columns;
    template <class Panel>
    static UNLADEN_INLINE const uint8_t *codes_at(const Panel &x, int k) {
        return reinterpret_cast<const uint8_t *>(x.q + size_t(k) * panel_columns);
    }
    // Calls body<n>(column) for a panel's first n_columns columns, as many at once as registers
    // hold.
    template <int n_columns, class Body>
    static UNLADEN_INLINE void each_columns(Body body) {
        constexpr int whole = n_columns / columns_at_once * columns_at_once;
#pragma GCC unroll 4
        for (int column = 0; column < whole; column += columns_at_once) {
            body.template operator()<columns_at_once>(column);
        }
        if constexpr (whole < n_columns) body.template operator()<n_columns - whole>(whole);
    }
};

template <class T>
struct Dealt256 : Dealt {
    using Type = T;
    using Tile = Tile256<T>;
    using Panel = Panel256;
    static void unpack(Tile &tile, Part part, int) { deal256<T>(tile, part); }
    template <int n_columns>
    static void multiply(float *c, const Tile &tile, const Panel &x, int k, int, Ahead ahead) {
        each_columns<n_columns>([&]<int n>(int column) {
            multiply256<T, n>(c + rows * column, tile, x, k, column, column ? Ahead{} : ahead);
        });
    }
};

template <class T>
struct Dealt32 : Dealt {
    using Type = T;
    using Panel = Panel32;
    struct Tile {
        Tile32<T> block[tile_k / 32];
    };
    static void unpack(Tile &tile, Part part, int n_k) {
        for (int b = 0; b < n_k / 32; ++b) {
            deal32<T>(tile.block[b], {part.p + size_t(b) * T::block_bytes, part.stride});
        }
    }
    template <int n_columns>
    static void multiply(float *c, const Tile &tile, const Panel &x, int k, int n_k, Ahead ahead) {
        each_columns<n_columns>([&]<int n>(int column) {
            multiply32<T, n>(c + rows * column, tile.block, n_k / 32, x, k, column,
                             column ? Ahead{} : ahead);
        });
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
