// By how much products with the first part of rows in two parts can be off: by Cauchy and Schwarz
// no further than the length of what each row lacks times that of the activations, be it of numbers
// or of their blocks' sums.
#pragma once

#if defined(__AVX512VNNI__)
#include "backends/cpu/csrc/isa/linear_parts.h"
#else
#include "backends/cpu/csrc/isa/linear_row_parts.h"
#endif

namespace unladen::cpu::UNLADEN_ISA {

// Both sums are rounded at most once for each block and sixteen times in it, a few times besides,
// and so is what becomes of them here. With a factor of two to spare.
inline double rounding(int n_blocks) { return 4.0 * (n_blocks + 32) * 0x1p-24; }

// Squares of a row's length and of the part of it that its first part lacks, at first and after a
// second look.
struct Squares {
    double lacking = 0, all = 0, left = 0;
};

// Eight sums of sixteen words' squares.
UNLADEN_INLINE __m256i squares(__m256i words) { return _mm256_madd_epi16(words, words); }
inline int total(__m256i sums) {
    __m128i all = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    all = _mm_add_epi32(all, _mm_unpackhi_epi64(all, all));
    return _mm_cvtsi128_si32(all) + _mm_extract_epi32(all, 1);
}

// Codes stand for the middle of eight. What is rounded may be sums of codes with their bias.
inline void add_squares(Squares &to, const uint8_t *block, Q8_0) {
    __m256i lacking = _mm256_setzero_si256();
    for (int i = 0; i < 32; i += 16) {
        const __m256i q = _mm256_cvtepi8_epi16(load128(block + 2 + i));
        const __m256i low = _mm256_and_si256(q, _mm256_set1_epi16(7));
        lacking = _mm256_add_epi32(lacking, squares(_mm256_sub_epi16(low, _mm256_set1_epi16(4))));
    }
    const double d = bits::half(block), d2 = d * d;
    to.lacking += d2 * total(lacking);
    to.all += d2 * (32 * 256 * 256);
}
// Half a code's step each, which blocks of sixteen activations meet all at once: those count as
// the sum of their sizes. No code is larger than 64 such halves, no block's length than 4 times
// one's.
inline void add_squares(Squares &to, const uint8_t *block, Q6_K) {
    const int sum = total(squares(_mm256_cvtepi8_epi16(load128(block + 192))));
    const double d = bits::half(block + 208), lacking = 0.25 * d * d * sum;
    to.lacking += lacking;
    to.all += (256.0 * 256.0) * lacking;
}

// Of each interleaved_rows rows the largest reach, as the first of n_known numbers, and after a
// second look, as the second. squares_of(row, n): those of row n.
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

// Of numbers of an activation row: their squares, and their sizes.
struct BlockSums {
    int squares, sizes;
};

// Number k of an activation row in a panel of so many columns.
template <class Panel>
UNLADEN_INLINE int number_at(const Panel &x, int k, int columns, int column) {
    return x.q[size_t(k) / panel_k * panel_k * columns + panel_k * column + k % panel_k];
}
// with(x, columns, column): where row t of n_rows is, rows being packed as T wants them.
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

// Of an activation row; square_of(sums, k): that of the first length of the numbers from k on, of a
// block of 32 or a sixteenth of one of 256. All that counts of what is left are their squares.
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
