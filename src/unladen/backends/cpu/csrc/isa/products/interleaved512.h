// Kernels of the formats whose rows can be interleaved: tiles of sixteen rows, one in each lane,
// times panels of activations.
#pragma once

#include "backends/cpu/csrc/isa/products/columns512.h"
#include "backends/cpu/csrc/isa/products/tile_pairs512.h"

namespace unladen::cpu::UNLADEN_ISA {

// The tiles of blocks of 32 for many columns, without the code that unpacks them. A: their Shape32.
struct TiledBlocks {
    Tile32 block[8];
};
template <class A>
struct TileProducts32 {
    using Panel = Panel32;
    using Tile = TiledBlocks;
    template <int tiles, int n, class Beside>
    static UNLADEN_INLINE void multiply(Totals c, const Tile *tile, const Panel &x, int k, int n_k,
                                        int column, Beside &beside) {
        multiply32<A, tiles, n>(c, tile, n_k / 32, x, k, column, beside);
    }
};
template <class T>
struct Tiled32 {
    using Products = TileProducts32<ShapeOf32<T>>;
    using Panel = Panel32;
    using Tile = TiledBlocks;
    static constexpr int tile_k = 256, slice_bytes = tile_k / T::block_size * T::block_bytes;
    static constexpr int occasions = tile_k / 32;  // moments for each group of columns

    static void unpack(Tile &tile, const Job &job, int row, int k, int n_k) {
        alignas(64) uint8_t room[tile_rows * T::block_bytes];
        Tile32 *block = tile.block;
        for (int i = 0; i < n_k; i += T::block_size) {
            const Block<T> w = interleaved_at<T>(job, row, k + i, room);
            const __m512 scale = InLanes<T>::scale(w);
            for (int at = 0; at < T::block_size; at += 32) decode<T>(*block++, w, scale, at / 4);
        }
    }
    // Prefetches scales and sums of a panel. Every kernel has this function; it does nothing where
    // that makes no difference.
    static UNLADEN_INLINE void ask_sums(const Panel &x, int k) {
        const int at = k / 32 * panel_columns, n = tile_k / 32 * panel_columns;
        ask_numbers(x.d + at, n);
        if constexpr (InLanes<T>::bias == 0) ask_numbers(x.sum + at, n);
        else ask_numbers(x.minus + at, n);
    }
};

template <class T>
struct Tiled256 {
    using Products = TileProducts256<ShapeOf256<InLanes<T>>>;
    using Panel = Panel256;
    using Tile = Tile256;
    static constexpr int tile_k = 256, slice_bytes = T::block_bytes;
    static constexpr int occasions = tile_k / InLanes<T>::sub;

    static void unpack(Tile &tile, const Job &job, int row, int k, int) {
        alignas(64) uint8_t room[tile_rows * T::block_bytes];
        decode<T>(tile, interleaved_at<T>(job, row, k, room));
    }
    static UNLADEN_INLINE void ask_sums([[maybe_unused]] const Panel &x, [[maybe_unused]] int k) {
        if constexpr (sums_bias<InLanes<T>>) {
            ask_numbers(x.times32 + k / 16 * panel_columns, tile_k / 16 * panel_columns);
        }
    }
};

template <class T, template <class, int> class Columns, template <class> class Tiled>
void run_blocks(const Job &job, bool panels) {
    if (!panels) return run_one<T, Columns>(job);
    if (job.t_last - job.t_first <= panel_columns) return run_panel<T, Columns>(job);
    run_pairs<Tiled<T>>(job);
}
// Multiplies rows that are interleaved as blocks of T.
template <class T, template <class, int> class Columns, template <class> class Tiled>
void run_moved(const Job &job, bool panels) {
    using One = Columns<T, 1>;
    if (!panels && reads_rolled() && job.n_cols % One::rolled_k == 0) {
        return run_rolled<T, One>(job);
    }
    run_blocks<T, Columns, Tiled>(job, panels);
}
template <class T, template <class, int> class Columns, template <class> class Tiled>
void run_interleaved(const Job &job, bool panels) {
    if (!job.interleaved) return run_blocks<T, Columns, Tiled>(job, panels);
    run_moved<Moved<T>, Columns, Tiled>(job, panels);
}

}  // namespace unladen::cpu::UNLADEN_ISA
