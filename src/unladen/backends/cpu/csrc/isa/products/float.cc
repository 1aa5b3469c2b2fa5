// Products with float32 activations. F32, F16 and BF16 are converted as they are read. Blocks of
// any other format are dequantized first, by one call for each 256 weights, so that the loops here
// are compiled once for all these formats.
#include "backends/cpu/csrc/isa/formats/dequantize.h"
#include "backends/cpu/csrc/isa/products/choose.h"
#include "backends/cpu/csrc/isa/products/loops.h"
#include "backends/cpu/csrc/isa/simd/transpose.h"

namespace unladen::cpu::UNLADEN_ISA {

namespace {

// How many weights of a row are unpacked together.
constexpr int tile_k = 256;

// The properties of a block format that these products need.
struct Format {
    size_t tile_bytes;  // bytes of tile_k weights
    void (*dequantize)(float *y, const uint8_t *w, int n);
};
struct FloatJob : Job {
    const Format &format;
};

// Three kinds of weights: numbers of type T that are converted as they are read; other numbers; and
// blocks.
template <class T>
struct Read : T {
    static constexpr bool is_read = true, is_number = true;
};
struct Numbers {
    static constexpr bool is_read = false, is_number = true;
};
struct Blocks {
    static constexpr bool is_read = false, is_number = false;
};

UNLADEN_INLINE vec load_as(F32, const uint8_t *w) {
    return load(reinterpret_cast<const float *>(w));
}
#if defined(__AVX2__) || defined(UNLADEN_NEON)
UNLADEN_INLINE vec load_as(F16, const uint8_t *w) { return load_f16(w); }
UNLADEN_INLINE vec load_as(BF16, const uint8_t *w) { return load_bf16(w); }
#endif
template <class T>
constexpr bool can_be_read = requires(const uint8_t *w) { load_as(T{}, w); };
template <class T>
using WeightsOf =
    Choose<can_be_read<T>, Read<T>, Choose<T::block_size == 1, Numbers, Blocks>>;

// The sum over the lanes. NEON has an instruction for it, which adds neighbours first.
UNLADEN_INLINE float sum_of(vec v) {
#if defined(UNLADEN_NEON)
    return vaddvq_f32((float32x4_t)v);
#else
    return sum(v);
#endif
}

// How many activations stay in L1 while weights go through it.
constexpr int columns_in_l1 = 4096;

// Weight k of a row: any number that is multiplied as it is read, otherwise a multiple of tile_k.
template <class W>
UNLADEN_INLINE const uint8_t *weights_at(const Format &format, const uint8_t *row, int k) {
    if constexpr (W::is_read)
        return row + size_t(k) * W::block_bytes;
    else
        return row + size_t(k) / tile_k * format.tile_bytes;
}

// Weights k .. k + n - 1 of a row as float32, then zeros up to a multiple of 16.
template <class W>
UNLADEN_INLINE void expand(float *to, const Format &format, const uint8_t *row, int k, int n) {
    const uint8_t *w = weights_at<W>(format, row, k);
    int i = 0;
    if constexpr (W::is_read) {
        for (; i + lanes <= n; i += lanes, w += lanes * W::block_bytes) {
            store(to + i, load_as(W{}, w));
        }
        for (; i < n; ++i, w += W::block_bytes) W::dequantize(w, to + i);
    } else {
        format.dequantize(to, w, n);
        i = n;
    }
    for (; i % 16 != 0; ++i) to[i] = 0.0f;
}

// Weights of `lanes` rows, turned around.
struct FloatTile {
    alignas(64) float w[tile_k * lanes];
};
// The rows from which a tile is unpacked. After the last row the last is repeated; its sums are
// dropped.
struct FloatRows {
    const FloatJob &job;
    int row, k;
};

// The part that doesn't depend on the weights' format.
struct FloatProducts {
    using Row = RowF32;
    using Panel = PanelF32;
    using Tile = FloatTile;
    static constexpr int rows = lanes, tile_k = unladen::cpu::UNLADEN_ISA::tile_k;
    static constexpr int occasions = tile_k / 16;
    static constexpr size_t panel_bytes = tile_k * panel_columns * sizeof(float);

    // A row of weights.
    struct WeightRow {
        const uint8_t *p;
        const Format *format;
        static UNLADEN_INLINE WeightRow at(const Job &job, int n) {
            return {job.w + n * job.row_bytes, &static_cast<const FloatJob &>(job).format};
        }
    };

    // Adds products with n weights of type W at w, in whole vectors.
    template <class W, int C, int n_sums>
    static UNLADEN_INLINE void add_products(vec (&total)[C][n_sums], const uint8_t *w, const Row *x,
                                            int k, int n) {
        constexpr int step = lanes * n_sums;
        int i = 0;
        for (; i + step <= n; i += step) {
#pragma GCC unroll 4
            for (int s = 0; s < n_sums; ++s) {
                const int at = i + s * lanes;
                const vec v = load_as(W{}, w + at * W::block_bytes);
#pragma GCC unroll 4
                for (int c = 0; c < C; ++c) {
                    total[c][s] = fma(v, load(x[c].x + k + at), total[c][s]);
                }
            }
        }
        for (; i < n; i += lanes) {
            const vec v = load_as(W{}, w + i * W::block_bytes);
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                total[c][0] = fma(v, load(x[c].x + k + i), total[c][0]);
            }
        }
    }

    static FloatRows slice(const Job &job, int row, int k) {
        return {static_cast<const FloatJob &>(job), row, k};
    }
    static UNLADEN_INLINE const uint8_t *codes_at(const Panel &x, int k) {
        return reinterpret_cast<const uint8_t *>(x.x + size_t(k) * panel_columns);
    }

    template <int n_columns>
    static void multiply(float *c, const Tile &tile, const Panel &panel, int k, int n,
                         Ahead ahead) {
        const float *x = panel.x + size_t(k) * panel_columns;
        vec sum[n_columns];
#pragma GCC unroll 8
        for (int j = 0; j < n_columns; ++j) sum[j] = load(c + j * rows);
        for (int i = 0; i < n; ++i, x += panel_columns) {
            if (i % 16 == 0) ahead.ask();
            const vec w = load(tile.w + i * rows);
#pragma GCC unroll 8
            for (int j = 0; j < n_columns; ++j) sum[j] = fma(w, splat(x[j]), sum[j]);
        }
#pragma GCC unroll 8
        for (int j = 0; j < n_columns; ++j) store(c + j * rows, sum[j]);
    }
};

template <class W>
struct Float : FloatProducts {
    // Plain numbers are unpacked quickly. A tile of other formats must serve many columns.
    static constexpr int n_tiles = W::is_number ? 2 : 1, columns = n_tiles == 2 ? 128 : 512;

    // Four independent sums hide the latency of a multiply-add; with more columns, the columns do.
    template <int C>
    static UNLADEN_INLINE void dot(float *out, WeightRow row, int n_cols, const Row *x,
                                   RowAhead<AsReading> ahead) {
        constexpr int n_sums = C == 1 ? 4 : C == 2 ? 2 : 1;
        // Reads and multiplies in one loop without prefetching. On Zen 4 this reads numbers from
        // memory 1.09 to 1.25 times as fast; longer rows half as fast.
        const bool alone = W::is_read && C == 1 && n_cols <= columns_in_l1 && reads_alone();
        const Format &format = *row.format;
        alignas(64) float w[tile_k];
        vec total[C][n_sums];
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
            for (int s = 0; s < n_sums; ++s) total[c][s] = vec{};
        }
        for (int k = 0; k < n_cols; k += tile_k) {
            const int n = n_cols - k < tile_k ? n_cols - k : tile_k;
            const uint8_t *here = weights_at<W>(format, row.p, k);
            if (!alone) {
                if constexpr (W::is_read)
                    ahead.ask(here, tile_k * W::block_bytes);
                else
                    ahead.ask(here, int(format.tile_bytes));
            }
            int done = 0;
            if constexpr (W::is_read) {
                if (alone || W::block_bytes == sizeof(float)) {  // whole vectors
                    done = n / lanes * lanes;
                    add_products<W>(total, here, x, k, done);
                    if (done == n) continue;
                }
            }
            expand<W>(w, format, row.p, k + done, n - done);
            add_products<F32>(total, reinterpret_cast<const uint8_t *>(w), x, k + done, n - done);
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
            vec sum = total[c][0];
            for (int s = 1; s < n_sums; ++s) sum += total[c][s];
            out[c] = sum_of(sum);
        }
    }

    static void unpack(Tile &tile, FloatRows from, int n) {
        alignas(64) float w[rows][tile_k];
        const FloatJob &job = from.job;
        for (int r = 0; r < rows; ++r) {
            const int row = from.row + r < job.n_last ? from.row + r : job.n_last - 1;
            expand<W>(w[r], job.format, job.w + row * job.row_bytes, from.k, n);
        }
        for (int i = 0; i < n; i += rows) transpose_tile(tile.w + i * rows, &w[0][i], tile_k);
    }
};

template <class W>
void multiply(const FloatJob &job, int n_rows) {
    if (in_panels(ActFormat::f32, n_rows)) {
        run_tiles<Float<W>>(job);
    } else {
        run_rows<Float<W>>(job);
    }
}

template <class T>
constexpr Format format_of = {size_t(tile_k / T::block_size) * T::block_bytes, dequantize_row<T>};

template <class T>
void run(float *y, size_t y_stride, Weights w, int n_first, int n_last, int n_cols,
         const void *act, int n_rows, int t_first, int t_last) {
    static_assert(tile_k % T::block_size == 0);
    const size_t row_bytes = size_t(n_cols / T::block_size) * T::block_bytes;
    const FloatJob job = {{y, y_stride, w.data, false, row_bytes, n_first, n_last, n_cols, act,
                           t_first, t_last},
                          format_of<T>};
    multiply<WeightsOf<T>>(job, n_rows);
}

template <class T>
constexpr Linear linear_of = {ActFormat::f32, T::block_size, T::block_bytes, lanes, run<T>};

template <class... T>
const Linear *find(Types<T...>, const char *type) {
    const Linear *found = nullptr;
    ((std::strcmp(type, T::name) == 0 ? void(found = &linear_of<T>) : void()), ...);
    return found;
}

}  // namespace

const Linear *linear_float(const char *type) { return find(AllTypes{}, type); }

}  // namespace unladen::cpu::UNLADEN_ISA
