// The bound of a coarse product's error. By the Cauchy-Schwarz inequality it is the length of the
// difference between row and coarse row times the length of the activations; both lengths may be
// those of single numbers or of sums of blocks.
#pragma once

#include "backends/cpu/csrc/isa/screening/squares.h"
#if defined(UNLADEN_AVX512)
#include "backends/cpu/csrc/isa/screening/coarse512.h"
#else
#include "backends/cpu/csrc/isa/screening/coarse_rows.h"
#endif

namespace unladen::cpu::UNLADEN_ISA {

// Both sums have at most one rounding for each block, sixteen inside it and a few others, and so
// have the computations here. Includes a factor of two as a reserve.
inline double rounding(int n_blocks) { return 4.0 * (n_blocks + 32) * 0x1p-24; }

// Writes, for each interleaved_rows rows, their largest reach as the first of n_known numbers and
// their largest reach after a second look as the second. squares_of(row, n): the Squares of row n.
template <class SquaresOf>
void measure_rows(float *known, int n_known, const uint8_t *w, size_t row_bytes, int n_rows,
                  int n_blocks, SquaresOf squares_of) {
    for (int first = 0; first < n_rows; first += interleaved_rows, known += n_known) {
        double most[2] = {0, 0};
        for (int n = first; n < n_rows && n < first + interleaved_rows; ++n) {
            const Squares of = squares_of(w + n * row_bytes, n);
            const double rounded = rounding(n_blocks) * __builtin_sqrt(of.all);
            const double reach[2] = {__builtin_sqrt(of.lacking), __builtin_sqrt(of.left)};
            for (int look = 0; look < 2; ++look) {
                const double one = reach[look] + rounded, so_far = most[look];
                if (so_far == so_far && !(one <= so_far)) most[look] = one;  // NaN stays
            }
        }
        for (int look = 0; look < 2 && look < n_known; ++look) known[look] = float(most[look]);
    }
}
template <class T>
void measure(float *reach, const uint8_t *w, int n_rows, int n_cols) {
    const int n_blocks = n_cols / T::block_size;
    const auto squares_of = [=](const uint8_t *row, int) {
        Squares squares;
        for (int b = 0; b < n_blocks; ++b, row += T::block_bytes) add_squares(squares, row, T());
        return squares;
    };
    measure_rows(reach, 1, w, size_t(n_blocks) * T::block_bytes, n_rows, n_blocks, squares_of);
}

template <class T>
void divide(uint8_t *to, uint8_t *rest, float *reach, const uint8_t *w, int n_rows, int n_cols) {
    divide_rows<T>(to, rest, w, n_rows, n_cols);
    measure<T>(reach, w, n_rows, n_cols);
}

// Screen::most_rows of formats without short scales.
constexpr int most_screened_rows = in_lanes ? 0x7fffffff : few_int8_rows;

// Sums over numbers of an activation row: the sum of squares and the sum of magnitudes.
struct BlockSums {
    int squares, sizes;
};

// Number k of a column, in a panel of `columns` columns.
template <class Panel>
UNLADEN_INLINE int number_at(const Panel &x, int k, int columns, int column) {
    return x.q[size_t(k) / panel_k * panel_k * columns + panel_k * column + k % panel_k];
}
// Calls with(x, columns, column) such that row t of n_rows, laid out for T, is this column of x.
using Row32Alone = Choose<in_lanes, Panel32Of<1>, Row32>;
using Row256Alone = Choose<in_lanes, Panel256Of<1>, Row256>;
template <class T, class With>
auto with_row(const void *act, int n_rows, int n_cols, int t, With with) {
    constexpr auto format = T::block_size == 32 ? ActFormat::q8_32 : ActFormat::q8_256;
    using Panel = Choose<T::block_size == 32, Panel32, Panel256>;
    using Row = Choose<T::block_size == 32, Row32Alone, Row256Alone>;
    if (!in_panels(format, n_rows)) return with(Row(act, n_cols).at(t), 1, 0);
    return with(Panel(act, n_cols).at(t / panel_columns), panel_columns, t % panel_columns);
}

// The lengths of an activation row. square_of(sums, k) is the share, in the square of the first
// length, of the block of 32 (or the 16 numbers of a block of 256) from k on. Their squares are
// summed for the other length.
template <class T, class SquareOf>
Lengths lengths_by(const void *act, int n_rows, int n_cols, int t, SquareOf square_of) {
    constexpr int size = T::block_size == 32 ? 32 : 16;
    return with_row<T>(act, n_rows, n_cols, t, [=](const auto &x, int columns, int column) {
        double first = 0, left = 0;
        for (int k = 0; k < n_cols; k += size) {
            BlockSums sums = {0, 0};
            for (int i = 0; i < size; ++i) {
                const int q = number_at(x, k + i, columns, column);
                sums.squares += q * q;
                sums.sizes += q < 0 ? -q : q;
            }
            const double d = x.d[k / T::block_size * columns + column];
            first += d * d * square_of(sums, k);
            left += d * d * sums.squares;
        }
        return Lengths{__builtin_sqrt(first), __builtin_sqrt(left)};
    });
}
template <class T>
Lengths lengths(const void *act, int n_rows, int n_cols, int t) {
    return lengths_by<T>(act, n_rows, n_cols, t, [](BlockSums sums, int) {
        return T::block_size == 32 ? double(sums.squares) : double(sums.sizes) * sums.sizes;
    });
}

}  // namespace unladen::cpu::UNLADEN_ISA
