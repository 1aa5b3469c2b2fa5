// Rounds rows of float32, or copies them, into the layouts of layout.h.
#include <cstring>

#include "backends/cpu/csrc/isa/products/loops.h"
#include "backends/cpu/csrc/isa/activations/round_avx2.h"
#include "backends/cpu/csrc/isa/activations/round_avx512.h"
#include "backends/cpu/csrc/isa/simd/float.h"

namespace unladen::cpu::UNLADEN_ISA {

namespace {

// Quantizes n values, a multiple of 16, to q in [-127, 127]: nearest to 127 x / max |x|, ties to
// even. Returns the scale at which these q are nearest to x by least squares; for 32 values that
// reduces the error by a thirty-second. The scale is NaN if x has a NaN or an infinity, so that
// such a value is noticed.
float quantize(int8_t *q, const float *x, int n) {
    uint32_t largest = 0;  // largest |x| by bit pattern, which orders NaN above infinity
    for (int i = 0; i < n; ++i) {
        uint32_t pattern;
        std::memcpy(&pattern, x + i, sizeof pattern);
        pattern &= 0x7fffffffu;
        largest = pattern > largest ? pattern : largest;
    }
    float magnitude;
    std::memcpy(&magnitude, &largest, sizeof magnitude);
    const float inverse = magnitude >= 1e-30f ? 127.0f / magnitude : 0.0f;
    // Adding 1.5 * 2^23 leaves the rounded integer in the low bits of the mantissa.
    constexpr float shift = 0x1.8p23f;
    for (int i = 0; i < n; ++i) {
        const float shifted = x[i] * inverse + shift;
        uint32_t pattern;
        std::memcpy(&pattern, &shifted, sizeof pattern);
        q[i] = int8_t(pattern);
    }
    vec products = {}, squares = {};
    for (int i = 0; i < n; i += lanes) {
        const vec scaled = load(x + i) * inverse, rounded = scaled + shift - shift;
        products = fma(scaled, rounded, products);
        squares = fma(rounded, rounded, squares);
    }
    const float square = sum(squares);  // exact: a sum of integers below 2^24
    return magnitude / 127.0f * (square == 0.0f ? 1.0f : sum(products) / square);
}

int sum(const int8_t *q, int n) {
    int total = 0;
    for (int i = 0; i < n; ++i) total += q[i];
    return total;
}

template <int columns>
void place(int8_t *panel, int column, int k, const int8_t *values, int n) {
    for (int i = 0; i < n; i += panel_k) {
        std::memcpy(panel + size_t(k + i) * columns + panel_k * column, values + i, panel_k);
    }
}

// Numbers [first, last) of a row: whole blocks, except at the row's end.
struct Range {
    int first, last;
};

// Calls put(k, q, d, total) for blocks of 32 of a row: codes, scale, and sum of codes.
template <class Put>
UNLADEN_INLINE void each_32(const float *x, Range range, Put put) {
    int k = range.first;
#ifdef UNLADEN_PACK256
    for (; k + eight_k <= range.last; k += eight_k) {
        int8_t q[eight_k];
        float d[8], total[8];
        quantize_eight(q, d, total, x + k);
        for (int b = 0; b < 8; ++b) put(k + 32 * b, q + 32 * b, d[b], total[b]);
    }
#endif
    for (; k < range.last; k += 32) {
        int8_t q[32];
        const float d = quantize(q, x + k, 32);
        put(k, q, d, float(sum(q, 32)));
    }
}

#ifndef UNLADEN_PACK256
float quantize_256(int8_t *q, int16_t *minus, const float *x) {
    const float d = quantize(q, x, 256);
    for (int s = 0; s < 16; ++s) minus[s] = int16_t(-sum(q + 16 * s, 16));
    return d;
}
#endif

// write(to, column, x, range) rounds a range of one activation row into a Row..., or into a column
// of a Panel...; x is null for a column that the last panel lacks.

void write(const RowF32 &to, int, const float *x, Range range) {
    std::memcpy(to.x + range.first, x + range.first, (range.last - range.first) * sizeof(float));
    for (size_t k = range.last; k < round_up(range.last, 16); ++k) to.x[k] = 0.0f;
}

void write(const PanelF32 &to, int column, const float *x, Range range) {
    const int end = int(round_up(range.last, 16));
    for (int k = range.first; k < end; ++k) {
        to.x[size_t(k) * panel_columns + column] = x && k < range.last ? x[k] : 0.0f;
    }
}

[[maybe_unused]] void write(const Row32 &to, int, const float *x, Range range) {
    each_32(x, range, [&](int k, const int8_t *q, float d, float total) {
        std::memcpy(to.q + k, q, 32);
        to.d[k / 32] = d;
        to.sum[k / 32] = d * total;
    });
}

typedef int8_t bytes16 __attribute__((vector_size(16)));

// Sixteen q to number `at` on.
template <class Pairs>
void put_pair(const Pairs &to, int at, const int8_t *q) {
    bytes16 values;
    std::memcpy(&values, q, sizeof values);
    const bytes16 sizes = values < 0 ? -values : values;
    std::memcpy(to.q + at, &values, sizeof values);
    std::memcpy(to.size + at, &sizes, sizeof sizes);
}

[[maybe_unused]] void write(const Row32Pairs &to, int, const float *x, Range range) {
    each_32(x, range, [&](int k, const int8_t *q, float d, float total) {
        to.d[k / 32] = d;
        to.sum[k / 32] = d * total;
        const int i = k % 256 / 32;
        const bool whole = k < to.n_whole;
        const int at = whole ? k / 256 * 256 + i % 4 * 64 + i / 4 * 16 : k;
        put_pair(to, at, q);
        put_pair(to, at + (whole ? 32 : 16), q + 16);
    });
}

template <int columns>
void write(const Panel32Of<columns> &to, int column, const float *x, Range range) {
    const auto put = [&](int k, const int8_t *q, float d, float total) {
        const int at = k / 32 * columns + column;
        place<columns>(to.q, column, k, q, 32);
        to.d[at] = d;
        to.sum[at] = d * total;
        if constexpr (in_lanes) to.minus[at] = -int(total);
    };
    constexpr int8_t none[32] = {};
    if (x) return each_32(x, range, put);
    for (int k = range.first; k < range.last; k += 32) put(k, none, 0.0f, 0.0f);
}

[[maybe_unused]] void write(const Row256 &to, int, const float *x, Range range) {
    for (int k = range.first; k < range.last; k += 256) {
        int8_t q[256];
        to.d[k / 256] = quantize_256(q, to.minus + k / 16, x + k);
        for (int s = 0; s < 16; ++s) {
            const int place = in_lanes ? lane_order(s) : s;
            std::memcpy(to.q + k + 16 * place, q + 16 * s, 16);
        }
    }
}

[[maybe_unused]] void write(const Row256Pairs &to, int, const float *x, Range range) {
    for (int k = range.first; k < range.last; k += 256) {
        int8_t q[256];
        to.d[k / 256] = quantize_256(q, to.minus + k / 16, x + k);
        for (int s = 0; s < 16; ++s) {
            put_pair(to, k + 64 * (s / 4) + 32 * (s % 2) + 16 * (s % 4 / 2), q + 16 * s);
        }
    }
}

template <int columns>
void write(const Panel256Of<columns> &to, int column, const float *x, Range range) {
    for (int k = range.first; k < range.last; k += 256) {
        int8_t q[256] = {};
        int16_t minus[16] = {};
        to.d[k / 256 * columns + column] = x ? quantize_256(q, minus, x + k) : 0.0f;
        place<columns>(to.q, column, k, q, 256);
        for (int s = 0; s < 8; ++s) {
            const int first = minus[2 * s], second = minus[2 * s + 1];
            int16_t *both = to.minus16 + 2 * ((k / 32 + s) * columns + column);
            both[0] = int16_t(first), both[1] = int16_t(second);
            const int pair = (k / 64 + s / 2) * columns + column;
            to.minus32[2 * pair + s % 2] = int16_t(first + second);
            if constexpr (in_lanes) {
                int32_t *times32 = to.times32 + (k / 16 + 2 * s) * columns + column;
                times32[0] = 32 * first, times32[columns] = 32 * second;
            }
        }
    }
}

#if defined(UNLADEN_AVX512)
void write(const Panel32Of<1> &to, int, const float *x, Range range) {
    int k = range.first;
    for (; k + sixteen_k <= range.last; k += sixteen_k) {
        const int b = k / 32;
        quantize_sixteen(to.q + k, to.d + b, to.sum + b, to.minus + b, x + k);
    }
    write<1>(to, 0, x, {k, range.last});
}
#endif

// Eight rows, or nullptr for those that the last panel lacks, into a panel.
template <class Panel>
void write_all(const Panel &to, const float *const *rows, Range range) {
    for (int c = 0; c < panel_columns; ++c) write(to, c, rows[c], range);
}

#if defined(UNLADEN_AVX512)
void write_all(const Panel256 &to, const float *const *rows, Range range) {
    for (int k = range.first; k < range.last; k += 256) {
        int8_t q[panel_columns][256] = {};
        float *d = to.d + k / 256 * panel_columns;
        for (int c = 0; c < panel_columns; ++c) {
            d[c] = rows[c] ? quantize(q[c], rows[c] + k, 256) : 0.0f;
            if (!rows[c]) continue;
            // The hardware doesn't prefetch eight rows that are read in turns.
            Ahead{reinterpret_cast<const uint8_t *>(rows[c] + k + 256), sizeof(float[256])}.ask();
        }
        for (int half = 0; half < 256; half += dealt_k) {
            const size_t at = size_t(k + half) * panel_columns;
            const DealtSums sums = deal(to.q + at, q[0] + half, sizeof q[0]);
            sums.store_pairs_of_16(to.minus16 + at / 16);
            sums.store_pairs_of_32(to.minus32 + at / 32);
            sums.store_times_32(to.times32 + at / 16);
        }
    }
}

void write_all(const Panel32 &to, const float *const *rows, Range range) {
    int k = range.first;
    for (; k + dealt_k <= range.last; k += dealt_k) {
        int8_t q[panel_columns][dealt_k] = {};
        float *d = to.d + k / 32 * panel_columns;
        for (int i = 0; i < 4 * panel_columns; ++i) {
            const int c = i % panel_columns, at = i / panel_columns * 32;
            d[i] = rows[c] ? quantize(q[c] + at, rows[c] + k + at, 32) : 0.0f;
        }
        const DealtSums sums = deal(to.q + size_t(k) * panel_columns, q[0], dealt_k);
        for (int b = 0, at = k / 32 * panel_columns; b < 4; ++b, at += panel_columns) {
            const __m256i total = sums.block(b);
            const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(to.d + at),
                                                _mm256_cvtepi32_ps(total));
            _mm256_storeu_ps(to.sum + at, scaled);
            _mm256_storeu_si256(reinterpret_cast<__m256i *>(to.minus + at),
                                _mm256_sub_epi32(_mm256_setzero_si256(), total));
        }
    }
    for (int c = 0; c < panel_columns; ++c) write(to, c, rows[c], {k, range.last});
}
#endif

template <class Row, class Panel, ActFormat format>
size_t bytes(int n_rows, int n_cols) {
    const bool panels = in_panels(format, n_rows);
    // With panels there is also room for the rows of a smaller n_rows.
    const size_t as_rows = Row(nullptr, n_cols).bytes * (panels ? few_rows : n_rows);
    const size_t n_panels = (size_t(n_rows) + panel_columns - 1) / panel_columns;
    const size_t as_panels = panels ? Panel(nullptr, n_cols).bytes * n_panels : 0;
    return as_panels > as_rows ? as_panels : as_rows;
}

template <class Row, class Panel, ActFormat format>
void pack(void *dst, Floats from, int n_rows, int n_cols, int first, int last, int k_first,
          int k_last) {
    const Range range = {k_first, k_last};
    const auto source = [=](int r) {
        return from.x + size_t(from.rows ? from.rows[r] : r) * from.stride - k_first;
    };
    if (!in_panels(format, n_rows)) {
        const Row row(dst, n_cols);
        for (int r = first; r < last; ++r) write(row.at(r), 0, source(r), range);
        return;
    }
    const Panel panel(dst, n_cols);
    for (int r = first; r < last; r += panel_columns) {
        const float *columns[panel_columns];
        for (int c = 0; c < panel_columns; ++c) {
            columns[c] = r + c < last ? source(r + c) : nullptr;
        }
        write_all(panel.at(r / panel_columns), columns, range);
    }
}

constexpr int block_of(ActFormat format) {
    if (format == ActFormat::f32) return 16;
    return format == ActFormat::q8_32 || format == ActFormat::q8_32_pairs ? 32 : 256;
}

template <class Row, class Panel, ActFormat format>
constexpr Packer packer_of = {bytes<Row, Panel, format>, pack<Row, Panel, format>, panel_columns,
                              block_of(format), has_one_order(format)};

#if defined(UNLADEN_AVX512)
using Columns32 = Panel32Of<1>;
using Columns256 = Panel256Of<1>;
#else
using Columns32 = Row32;
using Columns256 = Row256;
#endif

}  // namespace

const Packer *packer(ActFormat format) {
    switch (format) {
        case ActFormat::f32: return &packer_of<RowF32, PanelF32, ActFormat::f32>;
        case ActFormat::q8_32: return &packer_of<Columns32, Panel32, ActFormat::q8_32>;
        case ActFormat::q8_32_pairs:
            return &packer_of<Row32Pairs, Panel32, ActFormat::q8_32_pairs>;
        case ActFormat::q8_256: return &packer_of<Columns256, Panel256, ActFormat::q8_256>;
        case ActFormat::q8_256_pairs:
            return &packer_of<Row256Pairs, Panel256, ActFormat::q8_256_pairs>;
        case ActFormat::q8_256_lanes:
            return &packer_of<Row256, Panel256, ActFormat::q8_256_lanes>;
    }
    return nullptr;
}

}  // namespace unladen::cpu::UNLADEN_ISA
