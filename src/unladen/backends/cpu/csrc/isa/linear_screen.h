// By how much products with the first part of rows in two parts can be off: by Cauchy and Schwarz
// no further than the length of what each row lacks times that of the activations, be it of numbers
// or of their blocks' sums.
#pragma once

#include "backends/cpu/csrc/isa/linear_parts.h"

namespace unladen::cpu::UNLADEN_ISA {

// Both sums are rounded at most once for each block and sixteen times in it, a few times besides,
// and so is what becomes of them here. With a factor of two to spare.
inline double rounding(int n_blocks) { return 4.0 * (n_blocks + 32) * 0x1p-24; }

// Squares of a row's length and of the part of it that its first part lacks.
struct Squares {
    double lacking, all;
};

UNLADEN_INLINE int square(__m512i words) {
    return _mm512_reduce_add_epi32(_mm512_madd_epi16(words, words));
}

// Codes stand for the middle of eight.
inline void add_squares(Squares &to, const uint8_t *block, Q8_0) {
    const __m512i q = _mm512_cvtepi8_epi16(load256(block + 2));
    const __m512i low = _mm512_and_si512(q, _mm512_set1_epi16(7));
    const double d = bits::half(block), d2 = d * d;
    to.lacking += d2 * square(_mm512_sub_epi16(low, _mm512_set1_epi16(4)));
    to.all += d2 * square(q);
}
// Half a code's step each, which blocks of sixteen activations meet all at once: those count as
// the sum of their sizes. No code is larger than 64 such halves, no block's length than 4 times
// one's.
inline void add_squares(Squares &to, const uint8_t *block, Q6_K) {
    const __m256i scales = _mm256_cvtepi8_epi16(load128(block + 192));
    const int sum = square(_mm512_zextsi256_si512(scales));
    const double d = bits::half(block + 208), lacking = 0.25 * d * d * sum;
    to.lacking += lacking;
    to.all += (256.0 * 256.0) * lacking;
}

template <class T>
void measure(float *reach, const uint8_t *w, int n_rows, int n_cols) {
    const int n_blocks = n_cols / T::block_size;
    for (int first = 0; first < n_rows; first += tile_rows, ++reach) {
        double most = 0;
        for (int row = first; row < n_rows && row < first + tile_rows; ++row) {
            Squares squares = {0, 0};
            for (int b = 0; b < n_blocks; ++b, w += T::block_bytes) add_squares(squares, w, T());
            const double one = __builtin_sqrt(squares.lacking) +
                               rounding(n_blocks) * __builtin_sqrt(squares.all);
            if (most == most && !(one <= most)) most = one;  // NaN stays
        }
        *reach = float(most);
    }
}

// Of an activation row: d and q as panels have them.
template <class T, class Panel>
double length_in(const Panel &x, int n_cols, int columns, int column) {
    constexpr int size = T::block_size == 32 ? 32 : 16;
    double square = 0;
    for (int k = 0; k < n_cols; k += size) {
        int sum = 0;
        for (int i = 0; i < size; ++i) {
            const int q = x.q[size_t(k + i) / panel_k * panel_k * columns + panel_k * column +
                              i % panel_k];
            sum += size == 32 ? q * q : q < 0 ? -q : q;
        }
        const double d = x.d[k / T::block_size * columns + column];
        square += d * d * (size == 32 ? sum : double(sum) * sum);
    }
    return __builtin_sqrt(square);
}
template <class T>
double length(const void *act, int n_rows, int n_cols, int t) {
    constexpr auto format = T::block_size == 32 ? ActFormat::q8_32 : ActFormat::q8_256;
    const auto of = [=](const auto &first, int columns) {
        return length_in<T>(first.at(t / columns), n_cols, columns, t % columns);
    };
    if constexpr (T::block_size == 32) {
        return in_panels(format, n_rows) ? of(Panel32(act, n_cols), panel_columns)
                                         : of(Panel32Of<1>(act, n_cols), 1);
    } else {
        return in_panels(format, n_rows) ? of(Panel256(act, n_cols), panel_columns)
                                         : of(Panel256Of<1>(act, n_cols), 1);
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
