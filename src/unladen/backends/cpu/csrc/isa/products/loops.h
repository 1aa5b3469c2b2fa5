// The loops around kernels: one weight row after another for few columns, tiles for many.
#pragma once

#include <cstring>

#include "backends/cpu/csrc/isa/activations/layout.h"
#include "backends/cpu/csrc/isa/contract/prefetch.h"

namespace unladen::cpu::UNLADEN_ISA {

// A piece of y = w x^T; the arguments of Linear::run.
struct Job {
    float *y;
    size_t y_stride;
    const uint8_t *w;
    bool interleaved;
    size_t row_bytes;
    int n_first, n_last, n_cols;
    const void *act;
    int t_first, t_last;
    const uint8_t *rest = nullptr;  // see Weights
    const float *known = nullptr;
    const uint8_t *next = nullptr;
};

// The order in which a thread reads: to the end of a job's last row, then from job.next on, if that
// is set.
class ReadOrder {
public:
    explicit ReadOrder(const Job &job)
        : end_(job.w + job.n_last * job.row_bytes), jump_(job.next ? job.next - end_ : 0) {}
    // The address that is n_bytes after `here` in this order.
    UNLADEN_INLINE const uint8_t *after(const uint8_t *here, size_t n_bytes) const {
        const uint8_t *there = here + n_bytes;
        return there < end_ ? there : there + jump_;
    }

private:
    const uint8_t *end_;
    ptrdiff_t jump_;
};

class RowsAhead {
public:
    // Prefetches the job's first rows.
    explicit RowsAhead(const Job &job) : order_(job), distance_(rows_ahead_bytes()) {
        ask_lines(job.w + job.n_first * job.row_bytes, int(distance_ / 64), asks_into_l1());
    }
    template <class Where = AsReading>
    UNLADEN_INLINE RowAhead<Where> of(const uint8_t *row) const {
        return {order_.after(row, distance_ / 2) - row, order_.after(row, distance_) - row};
    }

private:
    ReadOrder order_;
    size_t distance_;
};

// Multiplies row by row, with Kernel::dot(y, row, n_cols, x, ahead): one weight row times one
// activation row.
template <class Kernel>
void run_row(const Job &job) {
    const typename Kernel::Row first(job.act, job.n_cols);
    const RowsAhead ahead(job);
    for (int t = job.t_first; t < job.t_last; ++t) {
        const typename Kernel::Row x = first.at(t);
        float *y = job.y + t * job.y_stride;
        for (int n = job.n_first; n < job.n_last; ++n) {
            const uint8_t *row = job.w + n * job.row_bytes;
            Kernel::dot(y + n, row, job.n_cols, x, ahead.of(row));
        }
    }
}

// Row n as Kernel::dot takes it: an address, or a Kernel::WeightRow.
template <class Kernel>
UNLADEN_INLINE auto row_at(const Job &job, int n) {
    if constexpr (requires { typename Kernel::WeightRow; })
        return Kernel::WeightRow::at(job, n);
    else
        return job.w + n * job.row_bytes;
}

// Rows n0 ... n1 - 1 times the activation row at x.
template <class Kernel, class Where = AsReading>
void run_one(const Job &job, float *y, int n0, int n1, const typename Kernel::Row *x,
             const RowsAhead &ahead) {
    for (int n = n0; n < n1; ++n) {
        Kernel::template dot<1>(y + n, row_at<Kernel>(job, n), job.n_cols, x,
                                ahead.of<Where>(job.w + n * job.row_bytes));
    }
}

// Multiplies with Kernel::dot<C>(out, row, n_cols, x, ahead): one weight row times the C activation
// rows at x. Its loops over C must be unrolled, so that sums are in registers, and because GCC 12
// at -O2 vectorizes the last loop wrongly. `one` is for a single activation row.
template <class Kernel>
void run_rows(const Job &job, decltype(run_one<Kernel>) *one = run_one<Kernel>) {
    using Row = typename Kernel::Row;
    const Row first(job.act, job.n_cols);
    const RowsAhead ahead(job);
    // Sixteen weight rows stay in L2 while every group of columns passes over them.
    for (int n0 = job.n_first; n0 < job.n_last; n0 += 16) {
        const int n1 = n0 + 16 < job.n_last ? n0 + 16 : job.n_last;
        for (int t = job.t_first; t < job.t_last; t += few_rows) {
            const int n_columns = job.t_last - t < few_rows ? job.t_last - t : few_rows;
            Row x[few_rows];
            for (int c = 0; c < n_columns; ++c) x[c] = first.at(t + c);
            if (n_columns == 1) {
                one(job, job.y + t * job.y_stride, n0, n1, x, ahead);
                continue;
            }
            for (int n = n0; n < n1; ++n) {
                const auto row = row_at<Kernel>(job, n);
                const RowAhead<AsReading> there = ahead.of(job.w + n * job.row_bytes);
                float out[few_rows];
                switch (n_columns) {
                    case 2: Kernel::template dot<2>(out, row, job.n_cols, x, there); break;
                    case 3: Kernel::template dot<3>(out, row, job.n_cols, x, there); break;
                    default: Kernel::template dot<4>(out, row, job.n_cols, x, there); break;
                }
                for (int c = 0; c < n_columns; ++c) job.y[(t + c) * job.y_stride + n] = out[c];
            }
        }
    }
}

// The same, with the kernel for one activation row compiled for each prefetch strategy.
template <class Kernel>
void run_rows_as_known(const Job &job) {
    run_rows<Kernel>(job, asks_into_l1()     ? run_one<Kernel, AsKnown<true, false>>
                          : reads_in_steps() ? run_one<Kernel, AsKnown<false, true>>
                                             : run_one<Kernel, AsKnown<false, false>>);
}

// Writes the first n_rows of each column's `rows` sums; all of them without calling memcpy.
template <int rows>
void store_sums(const Job &job, const float *c, int n, int n_rows, int t0, int t1) {
    for (int t = t0; t < t1; ++t, c += rows) {
        float *y = job.y + t * job.y_stride + n;
        n_rows == rows ? std::memcpy(y, c, rows * sizeof(float))
                       : std::memcpy(y, c, n_rows * sizeof(float));
    }
}

// The same columns of several weight rows: those of row r lie at p + r * stride.
struct Slice {
    const uint8_t *p;
    size_t stride;
};

// Columns k to k + n_k - 1 of `rows` rows from n on. After the last row the last one is repeated
// and its sums are dropped; such a slice is a copy in `spare`.
template <class T, int rows>
Slice slice_of(const Job &job, int n, int k, int n_k, uint8_t *spare) {
    const uint8_t *first = job.w + size_t(k / T::block_size) * T::block_bytes;
    if (job.n_last - n >= rows) return {first + n * job.row_bytes, job.row_bytes};
    const size_t bytes = size_t(n_k / T::block_size) * T::block_bytes;
    for (int r = 0; r < rows; ++r) {
        const int row = n + r < job.n_last ? n + r : job.n_last - 1;
        std::memcpy(spare + r * bytes, first + row * job.row_bytes, bytes);
    }
    return {spare, bytes};
}

// The slice that Kernel unpacks.
template <class Kernel>
auto slice_at(const Job &job, int n, int k, int n_k, uint8_t *spare) {
    if constexpr (requires { Kernel::slice(job, n, k); })
        return Kernel::slice(job, n, k);
    else
        return slice_of<typename Kernel::Type, Kernel::rows>(job, n, k, n_k, spare);
}

// Bytes for a copy of a tile's rows where fewer are left, for kernels that unpack rows that aren't
// interleaved.
template <class Kernel>
constexpr size_t spare_bytes() {
    if constexpr (requires(const Job &job) { Kernel::slice(job, 0, 0); }) {
        return 1;
    } else {
        using T = typename Kernel::Type;
        return Kernel::rows * (Kernel::tile_k / T::block_size) * T::block_bytes;
    }
}

// Calls Kernel::multiply<n> for the n columns of a panel, or one more, which is zero.
template <class Kernel>
void multiply_panel(float *c, const typename Kernel::Tile &tile, const typename Kernel::Panel &x,
                    int k, int n_k, int n_columns, Ahead ahead) {
    if constexpr (requires { Kernel::multiply_columns; }) {
        const int n = n_columns < panel_columns ? n_columns : panel_columns;
        return Kernel::multiply_columns(c, tile, x, k, n_k, n, ahead);
    } else {
        switch ((n_columns + 1) / 2) {
            case 1: return Kernel::template multiply<2>(c, tile, x, k, n_k, ahead);
            case 2: return Kernel::template multiply<4>(c, tile, x, k, n_k, ahead);
            case 3: return Kernel::template multiply<6>(c, tile, x, k, n_k, ahead);
            default: return Kernel::template multiply<8>(c, tile, x, k, n_k, ahead);
        }
    }
}

// A block of `Kernel::n_tiles` times `Kernel::rows` weight rows and up to `Kernel::columns`
// activation rows. For every `Kernel::tile_k` of k: the weights are unpacked once, then each
// panel's part is read once, from L2 or L3, for all tiles. c holds sums as [tile][column][row].
template <class Kernel>
void run_block(const Job &job, const typename Kernel::Panel &first, int n0, int t0) {
    constexpr int rows = Kernel::rows, columns = Kernel::columns;
    typename Kernel::Tile tile[Kernel::n_tiles];
    alignas(64) float c[Kernel::n_tiles][columns * rows];
    alignas(64) uint8_t spare[spare_bytes<Kernel>()];
    const int t1 = t0 + columns < job.t_last ? t0 + columns : job.t_last;
    const int p0 = t0 / panel_columns, n_panels = (t1 - t0 + panel_columns - 1) / panel_columns;
    const int left = (job.n_last - n0 + rows - 1) / rows;
    const int n_tiles = left < Kernel::n_tiles ? left : Kernel::n_tiles;
    for (int i = 0; i < n_tiles; ++i) {
        std::memset(c[i], 0, n_panels * panel_columns * rows * sizeof(float));
    }
    // The next block of rows is prefetched from its start to its end while k goes through this
    // block.
    const bool is_last = n0 + 2 * Kernel::n_tiles * rows > job.n_last;
    const size_t slice_bytes = job.row_bytes * Kernel::tile_k / size_t(job.n_cols);
    Ahead ahead = {job.w + (n0 + Kernel::n_tiles * rows) * job.row_bytes,
                   rows * slice_bytes / Kernel::occasions};
    const size_t part_step = n_panels > 1 ? Kernel::panel_bytes / Kernel::occasions : 0;
    for (int k = 0; k < job.n_cols; k += Kernel::tile_k) {
        const int n_k = job.n_cols - k < Kernel::tile_k ? job.n_cols - k : Kernel::tile_k;
        for (int i = 0; i < n_tiles; ++i) {
            Kernel::unpack(tile[i], slice_at<Kernel>(job, n0 + i * rows, k, n_k, spare), n_k);
        }
        for (int p = 0; p < n_panels; ++p) {
            const typename Kernel::Panel x = first.at(p0 + p);
            const int n_columns = t1 - t0 - p * panel_columns;
            for (int i = 0; i < n_tiles; ++i) {
                // Products with the first panel prefetch the next weights, those with other panels
                // the next panel.
                Ahead next = {Kernel::codes_at(first.at(p0 + p + 1), k), i == 0 ? part_step : 0};
                if (p == 0) next = is_last ? Ahead{nullptr, 0} : ahead;
                if (p == 0) ahead.p += Kernel::occasions * ahead.step;
                multiply_panel<Kernel>(c[i] + p * panel_columns * rows, tile[i], x, k, n_k,
                                       n_columns, next);
            }
        }
    }
    for (int i = 0; i < n_tiles; ++i) {
        const int n = n0 + i * rows, n_rows = job.n_last - n < rows ? job.n_last - n : rows;
        store_sums<rows>(job, c[i], n, n_rows, t0, t1);
    }
}

template <class Kernel>
void run_tiles(const Job &job) {
    const typename Kernel::Panel first(job.act, job.n_cols);
    constexpr int rows = Kernel::n_tiles * Kernel::rows;
    const int n_at_once = job.n_last - job.n_first < rows ? job.n_last - job.n_first : rows;
    Ahead{job.w + job.n_first * job.row_bytes, n_at_once * job.row_bytes}.ask();
    for (int n = job.n_first; n < job.n_last; n += Kernel::n_tiles * Kernel::rows) {
        for (int t = job.t_first; t < job.t_last; t += Kernel::columns) {
            run_block<Kernel>(job, first, n, t);
        }
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
