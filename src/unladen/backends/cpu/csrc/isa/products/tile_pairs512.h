// The loops around products of decoded tiles: two tiles of sixteen weight rows at a time.
#pragma once

#include "backends/cpu/csrc/isa/products/tiles512.h"

namespace unladen::cpu::UNLADEN_ISA {

constexpr int pair_rows = 2 * tile_rows;
// The most columns for which a tile is unpacked. With half of them prompts take 1 to 3 % longer.
constexpr int pair_columns = 512;

// Writes the sums of one or two tiles, whose rows follow one another in y.
inline void store_pair(const Job &job, Totals c, int n0, int t0, int t1) {
    const int n_rows = job.n_last - n0 < pair_rows ? job.n_last - n0 : pair_rows;
    const __mmask16 first = mask_of(n_rows), second = mask_of(n_rows - tile_rows);
    for (int t = t0; t < t1; ++t) {
        float *y = job.y + t * job.y_stride + n0;
        _mm512_mask_storeu_ps(y, first, _mm512_load_ps(c.at(0, t - t0)));
        _mm512_mask_storeu_ps(y + tile_rows, second, _mm512_load_ps(c.at(1, t - t0)));
    }
}

template <class A>
struct TileProducts256 {
    using Panel = Panel256;
    using Tile = Tile256;
    template <int tiles, int n, class Beside>
    static UNLADEN_INLINE void multiply(Totals c, const Tile *tile, const Panel &x, int k, int,
                                        int column, Beside &beside) {
        multiply256<A, tiles, n>(c, tile, x, k, column, beside);
    }
};

// Multiplies the n columns of a panel, or a few more, which are zero. Not inlined, so that formats
// share it.
template <class Products, int tiles, class Beside>
__attribute__((noinline)) void multiply_panel(Totals c, const typename Products::Tile *tile,
                                              const typename Products::Panel &x, int k, int n_k,
                                              int n, Beside &beside) {
    if (n <= 2) return Products::template multiply<tiles, 2>(c, tile, x, k, n_k, 0, beside);
    Products::template multiply<tiles, 4>(c, tile, x, k, n_k, 0, beside);
    if (n > 6) return Products::template multiply<tiles, 4>(c, tile, x, k, n_k, 4, beside);
    if (n > 4) Products::template multiply<tiles, 2>(c, tile, x, k, n_k, 4, beside);
}

// One tile, or a pair of them.
template <class Products, class Beside>
void multiply_tiles(Totals c, const typename Products::Tile *tile, int n_tiles,
                    const typename Products::Panel &x, int k, int n_k, int n, Beside &beside) {
    n_tiles == 1 ? multiply_panel<Products, 1>(c, tile, x, k, n_k, n, beside)
                 : multiply_panel<Products, 2>(c, tile, x, k, n_k, n, beside);
}

// Tiles of the same k that are unpacked step by step at moments of a product that runs meanwhile,
// to use units that the product leaves idle.
template <class Kernel>
struct Unpacking {
    typename Kernel::Tile *tile;
    int n_tiles;  // 0: nothing to do
    Sixteen rows[2];
    int n_occasions;
    Ahead ahead;
    int n_asked = 0, done = 0;

    UNLADEN_INLINE void ask() {
        ahead.ask();
        if (++n_asked * n_tiles * Kernel::n_steps > done * n_occasions) step();
    }
    UNLADEN_INLINE void step() {
        if (done == n_tiles * Kernel::n_steps) return;
        const int i = done >= Kernel::n_steps;
        Kernel::unpack_step(tile[i], rows[i], done++ - i * Kernel::n_steps);
    }
    void finish() {
        while (done < n_tiles * Kernel::n_steps) step();
    }
};

// One panel: each tile is used once, so the next tiles are unpacked during its product.
template <class Kernel>
struct OnePanel {
    using Tile = typename Kernel::Tile;
    const Job &job;
    const typename Kernel::Panel x;
    alignas(64) Tile tiles[2][2];
    alignas(64) float c[2][panel_columns * tile_rows];
    alignas(64) uint8_t spare[2][tile_rows * Kernel::slice_bytes];

    OnePanel(const Job &job)
        : job(job),
          x(typename Kernel::Panel(job.act, job.n_cols).at(job.t_first / panel_columns)) {}

    int n_tiles_at(int row) const {
        return job.n_last - row > tile_rows ? 2 : job.n_last > row ? 1 : 0;
    }

    Unpacking<Kernel> unpacking(Tile *to, int row, int k, Ahead ahead) {
        const int n_tiles = n_tiles_at(row);
        const int n_groups = job.t_last - job.t_first > 4 ? 2 : 1;
        Unpacking<Kernel> all = {to, n_tiles, {}, n_groups * Kernel::occasions, ahead};
        for (int i = 0; i < n_tiles; ++i) {
            all.rows[i] = Kernel::rows_at(job, row + i * tile_rows, k, spare[i]);
        }
        return all;
    }

    void run() {
        const int n_columns = job.t_last - job.t_first;
        // The rows after these are prefetched from start to end while k goes through these.
        const size_t n_ahead = pair_rows * job.row_bytes;
        const uint8_t *next = job.w + job.n_first * job.row_bytes;
        Ahead{next, n_ahead}.ask();
        const int n_slices = job.n_cols / Kernel::tile_k;
        const size_t step = n_ahead / (n_slices * Kernel::occasions * (n_columns > 4 ? 2 : 1)) + 1;
        unpacking(tiles[0], job.n_first, 0, {}).finish();
        for (int row = job.n_first, now = 0; row < job.n_last; row += pair_rows) {
            const int n_tiles = n_tiles_at(row);
            std::memset(c, 0, sizeof c);
            Ahead ahead = {job.w + (row + pair_rows) * job.row_bytes, step};
            for (int k = 0; k < job.n_cols; k += Kernel::tile_k, now = 1 - now) {
                const bool is_last = k + Kernel::tile_k >= job.n_cols;
                Unpacking<Kernel> beside =
                    is_last ? unpacking(tiles[1 - now], row + pair_rows, 0, ahead)
                            : unpacking(tiles[1 - now], row, k + Kernel::tile_k, ahead);
                const Totals to = {c[0], panel_columns * tile_rows};
                multiply_tiles<typename Kernel::Products>(to, tiles[now], n_tiles, x, k,
                                                          Kernel::tile_k, n_columns, beside);
                beside.finish();
                ahead.p = beside.ahead.p;
            }
            store_pair(job, {c[0], panel_columns * tile_rows}, row, job.t_first, job.t_last);
        }
    }
};

template <class Panel>
const uint8_t *codes_at(const Panel &x, int k) {
    return reinterpret_cast<const uint8_t *>(x.q + size_t(k) * panel_columns);
}

// The place of a pair of tiles: its first row, and the first k.
struct Place {
    int row, k;
};
// The interleaved weights of a pair's tile i, or the address after the last row.
template <class Kernel>
const uint8_t *tile_at(const Job &job, Place pair, int i) {
    const size_t row = pair.row + i * tile_rows, slice = pair.k / Kernel::tile_k;
    return job.w + row * job.row_bytes + slice * tile_rows * Kernel::slice_bytes;
}

// Many panels: for every tile_k columns a pair of tiles is unpacked and multiplied by up to 64
// panels, which are read from L2 or L3.
template <class Kernel>
void run_pair(const Job &job, const typename Kernel::Panel &first, int n0, int t0) {
    typename Kernel::Tile tile[2];
    alignas(64) float c[2][pair_columns * tile_rows];
    const int t1 = t0 + pair_columns < job.t_last ? t0 + pair_columns : job.t_last;
    const int p0 = t0 / panel_columns, n_panels = (t1 - t0 + panel_columns - 1) / panel_columns;
    const int n_tiles = job.n_last - n0 > tile_rows ? 2 : 1;
    for (int i = 0; i < n_tiles; ++i) {
        std::memset(c[i], 0, n_panels * panel_columns * tile_rows * sizeof(float));
    }
    // During the first panels weights are prefetched: of interleaved rows those of the next k, a
    // tile at each panel; of other rows those of the next pair, from start to end while k goes
    // through this one. During the other panels the next panel is prefetched.
    const size_t tile_step = tile_rows * Kernel::slice_bytes / (2 * Kernel::occasions);
    constexpr size_t panel_step = Kernel::tile_k * panel_columns / (2 * Kernel::occasions);
    const bool is_last = n0 + 2 * pair_rows > job.n_last;
    Ahead apart = {job.w + (n0 + pair_rows) * job.row_bytes, is_last ? 0 : 2 * tile_step};
    for (int k = 0; k < job.n_cols; k += Kernel::tile_k) {
        const int n_k = job.n_cols - k < Kernel::tile_k ? job.n_cols - k : Kernel::tile_k;
        const Place soon = k + n_k < job.n_cols ? Place{n0, k + n_k}
                                                : Place{t1 < job.t_last ? n0 : n0 + pair_rows, 0};
        for (int i = 0; i < n_tiles; ++i) {
            Kernel::unpack(tile[i], job, n0 + i * tile_rows, k, n_k);
        }
        for (int p = 0; p < n_panels; ++p) {
            if (p + 1 < n_panels) Kernel::ask_sums(first.at(p0 + p + 1), k);
            const Totals to = {c[0] + p * panel_columns * tile_rows, pair_columns * tile_rows};
            const auto multiply = [&](auto beside) {
                multiply_tiles<typename Kernel::Products>(to, tile, n_tiles, first.at(p0 + p), k,
                                                          n_k, t1 - t0 - p * panel_columns, beside);
                return beside;
            };
            if (job.interleaved && p < 2) {
                multiply(Ahead{tile_at<Kernel>(job, soon, p), tile_step});
            } else if (!job.interleaved && p == 0) {
                apart = multiply(apart);
            } else {
                multiply(AheadBy<panel_step>{codes_at(first.at(p0 + p + 1), k)});
            }
        }
    }
    store_pair(job, {c[0], pair_columns * tile_rows}, n0, t0, t1);
}

template <class Kernel>
void run_pairs(const Job &job) {
    const typename Kernel::Panel first(job.act, job.n_cols);
    const int left = job.n_last - job.n_first, n_rows = left < pair_rows ? left : pair_rows;
    const uint8_t *w = job.w + job.n_first * job.row_bytes;
    if (!job.interleaved) Ahead{w, n_rows * job.row_bytes}.ask();
    for (int i = 0; job.interleaved && i < 2; ++i) {
        Ahead{tile_at<Kernel>(job, {job.n_first, 0}, i), tile_rows * Kernel::slice_bytes}.ask();
    }
    for (int n = job.n_first; n < job.n_last; n += pair_rows) {
        for (int t = job.t_first; t < job.t_last; t += pair_columns) {
            run_pair<Kernel>(job, first, n, t);
        }
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
