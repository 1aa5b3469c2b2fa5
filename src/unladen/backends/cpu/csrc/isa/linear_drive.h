// The two loops around every kernel: rows apart (few activation rows) and tiles (many).
#pragma once

#include <cstring>

#include "backends/cpu/csrc/isa/linear_act.h"

namespace unladen::cpu::UNLADEN_ISA {

// A piece of y = w x^T; the arguments of Linear::run.
struct Job {
    float *y;
    size_t y_stride;
    const uint8_t *w;
    size_t row_bytes;
    int n_first, n_last, n_cols;
    const void *act;
    int t_first, t_last;
};

// dot(out, row, first column, integral_constant-like C): C products of one weight row with columns
// t .. t + C - 1, for C up to few_rows.
template <class Kernel>
void run_rows(const Job &job) {
    // Sixteen weight rows stay in L2 while every group of columns passes over them.
    for (int n0 = job.n_first; n0 < job.n_last; n0 += 16) {
        const int n1 = n0 + 16 < job.n_last ? n0 + 16 : job.n_last;
        for (int t = job.t_first; t < job.t_last; t += few_rows) {
            const int n_columns = job.t_last - t < few_rows ? job.t_last - t : few_rows;
            for (int n = n0; n < n1; ++n) {
                const uint8_t *row = job.w + n * job.row_bytes;
                float out[few_rows];
                switch (n_columns) {
                    case 1: Kernel::template dot<1>(out, row, job, t); break;
                    case 2: Kernel::template dot<2>(out, row, job, t); break;
                    case 3: Kernel::template dot<3>(out, row, job, t); break;
                    default: Kernel::template dot<4>(out, row, job, t); break;
                }
                for (int c = 0; c < n_columns; ++c) job.y[(t + c) * job.y_stride + n] = out[c];
            }
        }
    }
}

// Weight rows by `Kernel::rows`, k by `Kernel::tile_k`: each tile is unpacked once per 512 columns
// and multiplied with their panels. c holds a panel's sums as [columns][rows].
template <class Kernel>
void run_tiles(const Job &job) {
    constexpr int rows = Kernel::rows, max_panels = 512 / panel_columns;
    constexpr int c_size = rows * panel_columns;
    alignas(64) float c[max_panels * c_size];
    typename Kernel::Tile tile;
    const int end = (job.t_last + panel_columns - 1) / panel_columns;
    for (int n = job.n_first; n < job.n_last; n += rows) {
        const int n_rows = job.n_last - n < rows ? job.n_last - n : rows;
        const uint8_t *row[rows];  // past the last row: the last again, its sums are dropped
        for (int r = 0; r < rows; ++r) {
            row[r] = job.w + (n + (r < n_rows ? r : n_rows - 1)) * job.row_bytes;
        }
        for (int p0 = job.t_first / panel_columns; p0 < end; p0 += max_panels) {
            const int n_panels = end - p0 < max_panels ? end - p0 : max_panels;
            std::memset(c, 0, n_panels * c_size * sizeof(float));
            for (int k = 0; k < job.n_cols; k += Kernel::tile_k) {
                const int n_k = job.n_cols - k < Kernel::tile_k ? job.n_cols - k : Kernel::tile_k;
                Kernel::unpack(tile, row, k, n_k);
                for (int p = 0; p < n_panels; ++p) {
                    Kernel::multiply(c + p * c_size, tile, job, p0 + p, k, n_k);
                }
            }
            const int t0 = p0 * panel_columns;
            for (int t = t0; t < job.t_last && t < t0 + n_panels * panel_columns; ++t) {
                std::memcpy(job.y + t * job.y_stride + n, c + (t - t0) * rows,
                            n_rows * sizeof(float));
            }
        }
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
