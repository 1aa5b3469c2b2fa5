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

// Squares of a row's length and of the part of it that its first part lacks.
struct Squares {
    double lacking, all;
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

template <class T>
void measure(float *reach, const uint8_t *w, int n_rows, int n_cols) {
    const int n_blocks = n_cols / T::block_size;
    for (int first = 0; first < n_rows; first += interleaved_rows, ++reach) {
        double most = 0;
        for (int row = first; row < n_rows && row < first + interleaved_rows; ++row) {
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
// Rows that aren't in panels of eight.
using Row32Alone = Choose<in_lanes, Panel32Of<1>, Row32>;
using Row256Alone = Choose<in_lanes, Panel256Of<1>, Row256>;
template <class T>
double length(const void *act, int n_rows, int n_cols, int t) {
    constexpr auto format = T::block_size == 32 ? ActFormat::q8_32 : ActFormat::q8_256;
    const auto of = [=](const auto &first, int columns) {
        return length_in<T>(first.at(t / columns), n_cols, columns, t % columns);
    };
    using Panel = Choose<T::block_size == 32, Panel32, Panel256>;
    using Row = Choose<T::block_size == 32, Row32Alone, Row256Alone>;
    return in_panels(format, n_rows) ? of(Panel(act, n_cols), panel_columns)
                                     : of(Row(act, n_cols), 1);
}

}  // namespace unladen::cpu::UNLADEN_ISA
