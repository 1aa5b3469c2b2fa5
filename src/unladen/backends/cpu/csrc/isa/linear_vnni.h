// Kernels of the formats whose rows can be interleaved: tiles of sixteen rows, one in each lane,
// times panels of activations.
#pragma once

#include "backends/cpu/csrc/isa/linear_few.h"
#include "backends/cpu/csrc/isa/linear_pairs.h"
#include "backends/cpu/csrc/isa/linear_planes.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class T>
struct Tiled32 {
    using Panel = Panel32;
    static constexpr int tile_k = 256, part_bytes = tile_k / 32 * T::block_bytes;
    static constexpr int occasions = tile_k / 32;  // for each group of columns
    struct Tile {
        Tile32 block[tile_k / 32];
    };

    static void unpack(Tile &tile, const Job &job, int row, int k, int n_k) {
        alignas(64) uint8_t room[tile_rows * T::block_bytes];
        for (int b = 0; b < n_k / 32; ++b) {
            const Block<T> w = interleaved_at<T>(job, row, k + 32 * b, room);
            decode<T>(tile.block[b], w, Across<T>::scale(w));
        }
    }
    // Asks for what a panel has beside its codes. So do other kernels, where it makes a difference.
    static UNLADEN_INLINE void ask_sums(const Panel &x, int k) {
        const int at = k / 32 * panel_columns, n = tile_k / 32 * panel_columns;
        ask_numbers(x.d + at, n);
        if constexpr (Across<T>::bias == 0) ask_numbers(x.sum + at, n);
        else ask_numbers(x.minus + at, n);
    }
    template <int tiles, int n, class Beside>
    static UNLADEN_INLINE void multiply(Totals c, const Tile *tile, const Panel &x, int k, int n_k,
                                        int column, Beside &beside) {
        multiply32<T, tiles, n>(c, tile, n_k / 32, x, k, column, beside);
    }
};

template <class T>
struct Tiled256 {
    using Panel = Panel256;
    using Tile = Tile256;
    static constexpr int tile_k = 256, part_bytes = T::block_bytes;
    static constexpr int occasions = tile_k / Across<T>::sub;

    static void unpack(Tile &tile, const Job &job, int row, int k, int) {
        alignas(64) uint8_t room[tile_rows * T::block_bytes];
        decode<T>(tile, interleaved_at<T>(job, row, k, room));
    }
    static UNLADEN_INLINE void ask_sums([[maybe_unused]] const Panel &x, [[maybe_unused]] int k) {
        if constexpr (sums_bias<Across<T>>) {
            ask_numbers(x.times32 + k / 16 * panel_columns, tile_k / 16 * panel_columns);
        }
    }
    template <int tiles, int n, class Beside>
    static UNLADEN_INLINE void multiply(Totals c, const Tile *tile, const Panel &x, int k, int,
                                        int column, Beside &beside) {
        multiply256<Across<T>, tiles, n>(c, tile, x, k, column, beside);
    }
};

template <class T, template <class, int> class Few, template <class> class Tiled>
void run_blocks(const Job &job, bool panels) {
    if (!panels) return run_one<T, Few>(job);
    if (job.t_last - job.t_first <= panel_columns) return run_panel<T, Few>(job);
    run_pairs<Tiled<T>>(job);
}
// T: what blocks are that have moved.
template <class T, template <class, int> class Few, template <class> class Tiled>
void run_moved(const Job &job, bool panels) {
    using One = Few<T, 1>;
    if (!panels && reads_rolled() && job.n_cols % One::rolled_k == 0) {
        return run_rolled<T, One>(job);
    }
    run_blocks<T, Few, Tiled>(job, panels);
}
template <class T, template <class, int> class Few, template <class> class Tiled>
void run_interleaved(const Job &job, bool panels) {
    if (!job.interleaved) return run_blocks<T, Few, Tiled>(job, panels);
    run_moved<Moved<T>, Few, Tiled>(job, panels);
}

}  // namespace unladen::cpu::UNLADEN_ISA
