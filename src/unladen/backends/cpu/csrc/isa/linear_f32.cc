// Products with float32 activations: any block format, each block dequantized on the way.
#include "backends/cpu/csrc/isa/linear_drive.h"
#include "backends/cpu/csrc/isa/linear_types.h"
#include "backends/cpu/csrc/isa/linear_vec.h"

namespace unladen::cpu::UNLADEN_ISA {

namespace {

// Numbers that can be multiplied as they are read.
UNLADEN_INLINE Vec load(F32, const uint8_t *w) {
    return Vec::load(reinterpret_cast<const float *>(w));
}
#if defined(__AVX2__) || defined(UNLADEN_NEON)
UNLADEN_INLINE Vec load(F16, const uint8_t *w) { return Vec::load_f16(w); }
UNLADEN_INLINE Vec load(BF16, const uint8_t *w) { return Vec::load_bf16(w); }
#endif
template <class T>
constexpr bool loads = requires(const uint8_t *w) { load(T{}, w); };
template <class T>
constexpr bool is_f32 = T::block_bytes == sizeof(float) && loads<T>;

// Activations that stay in L1 while weights go through it.
constexpr int columns_in_l1 = 4096;

// Weights k .. k + n - 1 of a row as float32, then zeros up to a multiple of 16.
template <class T>
void expand(float *to, const uint8_t *row, int k, int n) {
    const uint8_t *w = row + size_t(k / T::block_size) * T::block_bytes;
    int i = 0;
    if constexpr (loads<T>) {
        for (; i + Vec::width <= n; i += Vec::width, w += Vec::width * T::block_bytes) {
            load(T{}, w).store(to + i);
        }
    }
    for (; i < n; i += T::block_size, w += T::block_bytes) T::dequantize(w, to + i);
    for (; i % 16 != 0; ++i) to[i] = 0.0f;
}

template <class T>
struct Float {
    using Type = T;
    using Row = RowF32;
    using Panel = PanelF32;
    static constexpr int rows = Vec::width, tile_k = 256, occasions = tile_k / 16;
    // Plain numbers are quickly unpacked; of the others a tile must serve many columns.
    static constexpr int n_tiles = T::block_size == 1 ? 2 : 1, columns = n_tiles == 2 ? 128 : 512;
    static_assert(tile_k % T::block_size == 0);

    struct Tile {
        alignas(64) float w[tile_k * rows];
    };

    // Four independent sums hide the latency of a multiply-add; with more columns, the columns do.
    template <int C>
    static UNLADEN_INLINE void dot(float *out, const uint8_t *row, int n_cols, const Row *x,
                                   RowAhead<AsReading> ahead) {
        constexpr int n_sums = C == 1 ? 4 : C == 2 ? 2 : 1;
        // Read and multiplied at once. On Zen 4 numbers come from memory 1.09 to 1.25 times as fast
        // so; longer rows half as fast.
        const bool alone = loads<T> && C == 1 && n_cols <= columns_in_l1 && reads_alone();
        alignas(64) float w[tile_k];
        Vec total[C][n_sums];
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
            for (int s = 0; s < n_sums; ++s) total[c][s] = Vec::zero();
        }
        for (int k = 0; k < n_cols; k += tile_k) {
            const int n = n_cols - k < tile_k ? n_cols - k : tile_k;
            const uint8_t *part = row + size_t(k / T::block_size) * T::block_bytes;
            if (!alone) ahead.ask(part, tile_k / T::block_size * T::block_bytes);
            int done = 0;
            if constexpr (loads<T>) {
                if (alone || is_f32<T>) {  // whole vectors
                    done = n / Vec::width * Vec::width;
                    add_products<T>(total, part, x, k, done);
                    if (done == n) continue;
                }
            }
            expand<T>(w, row, k + done, n - done);
            add_products<F32>(total, reinterpret_cast<const uint8_t *>(w), x, k + done, n - done);
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
            Vec sum = total[c][0];
            for (int s = 1; s < n_sums; ++s) sum = sum.plus(total[c][s]);
            out[c] = sum.sum();
        }
    }

    // n numbers of W at w, in whole vectors.
    template <class W, int C, int n_sums>
    static UNLADEN_INLINE void add_products(Vec (&total)[C][n_sums], const uint8_t *w, const Row *x,
                                            int k, int n) {
        constexpr int step = Vec::width * n_sums;
        int i = 0;
        for (; i + step <= n; i += step) {
#pragma GCC unroll 4
            for (int s = 0; s < n_sums; ++s) {
                const int at = i + s * Vec::width;
                const Vec v = load(W{}, w + at * W::block_bytes);
#pragma GCC unroll 4
                for (int c = 0; c < C; ++c) {
                    total[c][s] = v.times_plus(Vec::load(x[c].x + k + at), total[c][s]);
                }
            }
        }
        for (; i < n; i += Vec::width) {
            const Vec v = load(W{}, w + i * W::block_bytes);
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                total[c][0] = v.times_plus(Vec::load(x[c].x + k + i), total[c][0]);
            }
        }
    }

    static void unpack(Tile &tile, Part part, int n) {
        alignas(64) float w[rows][tile_k];
        for (int r = 0; r < rows; ++r) expand<T>(w[r], part.p + r * part.stride, 0, n);
        for (int i = 0; i < n; i += rows) transpose_tile(tile.w + i * rows, &w[0][i], tile_k);
    }

    static constexpr size_t panel_bytes = tile_k * panel_columns * sizeof(float);
    static UNLADEN_INLINE const uint8_t *codes_at(const Panel &x, int k) {
        return reinterpret_cast<const uint8_t *>(x.x + size_t(k) * panel_columns);
    }

    template <int n_columns>
    static void multiply(float *c, const Tile &tile, const Panel &panel, int k, int n,
                         Ahead ahead) {
        const float *x = panel.x + size_t(k) * panel_columns;
        Vec sum[n_columns];
#pragma GCC unroll 8
        for (int j = 0; j < n_columns; ++j) sum[j] = Vec::load(c + j * rows);
        for (int i = 0; i < n; ++i, x += panel_columns) {
            if (i % 16 == 0) ahead.ask();
            const Vec w = Vec::load(tile.w + i * rows);
#pragma GCC unroll 8
            for (int j = 0; j < n_columns; ++j) sum[j] = w.times_plus(Vec::all(x[j]), sum[j]);
        }
#pragma GCC unroll 8
        for (int j = 0; j < n_columns; ++j) sum[j].store(c + j * rows);
    }
};

template <class T>
void run(float *y, size_t y_stride, Weights w, int n_first, int n_last, int n_cols,
         const void *act, int n_rows, int t_first, int t_last) {
    const size_t row_bytes = size_t(n_cols / T::block_size) * T::block_bytes;
    const Job job = {y,      y_stride, w.data, false,   row_bytes, n_first,
                     n_last, n_cols,   act,    t_first, t_last};
    if (in_panels(ActFormat::f32, n_rows)) {
        run_tiles<Float<T>>(job);
    } else {
        run_rows<Float<T>>(job);
    }
}

template <class T>
constexpr Linear linear_of = {ActFormat::f32, T::block_size, T::block_bytes,
                              Vec::width,     run<T>,        nullptr};

template <class... T>
const Linear *find(Types<T...>, const char *type) {
    const Linear *found = nullptr;
    ((std::strcmp(type, T::name) == 0 ? void(found = &linear_of<T>) : void()), ...);
    return found;
}

}  // namespace

const Linear *linear_f32(const char *type) { return find(AllTypes{}, type); }

}  // namespace unladen::cpu::UNLADEN_ISA
