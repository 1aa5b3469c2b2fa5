// The second look at rows of a Q4_0 head that, by their coarse products, may have the largest
// product. It multiplies the lowest bits of their codes by activations, with sixteen blocks of a
// row in the lanes of a register.
#pragma once

#include "backends/cpu/csrc/isa/screening/short_coarse512.h"

namespace unladen::cpu::UNLADEN_ISA {

// The activations for divided blocks, sixteen blocks at a time: eight times four numbers of each
// block, and each block's sum and scale. Lanes after the last block are 0.
struct LowBitActivations {
    using T = ShortDivided<true>;
    static constexpr int n_lanes = 16;
    struct alignas(64) Blocks {
        int8_t q[8][4 * n_lanes];
        int32_t sum[n_lanes];
        float d[n_lanes];
    };

    static int n_blocks(int n_cols) { return n_cols / T::block_size * T::n_last; }
    static size_t n_lines(int n_cols) {
        return (n_blocks(n_cols) + n_lanes - 1) / n_lanes * (sizeof(Blocks) / sizeof(CacheLine));
    }
    // Writes activation row t of n_rows: see SecondLook::prepare.
    static void prepare(CacheLine *to, const void *act, int n_rows, int n_cols, int t) {
        auto *blocks = reinterpret_cast<Blocks *>(to);
        std::memset(to, 0, n_lines(n_cols) * sizeof(CacheLine));
        with_row<Q4_0>(act, n_rows, n_cols, t, [=](const auto &x, int columns, int column) {
            for (int i = 0; i < n_blocks(n_cols); ++i) {
                const int b = i / T::n_last * T::n_blocks + T::n_alike + i % T::n_last;
                Blocks &of = blocks[i / n_lanes];
                const int lane = i % n_lanes;
                for (int j = 0; j < 32; ++j) {
                    const int q = number_at(x, 32 * b + j, columns, column);
                    of.q[j / 4][4 * lane + j % 4] = int8_t(q);
                    of.sum[lane] += q;
                }
                of.d[lane] = x.d[b * columns + column];
            }
        });
    }
};

// Writes the rows, from `first` on, whose products may be `least` or more, if coarse products y are
// off by at most `off`. A NaN counts as such a row.
inline int rows_in_question(int32_t *rows, const float *y, int first, float off, float least) {
    const __m512 most = _mm512_add_ps(_mm512_loadu_ps(y), _mm512_set1_ps(off));
    const __mmask16 are = _mm512_cmp_ps_mask(most, _mm512_set1_ps(least), _CMP_NLT_UQ);
    static constexpr int32_t lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const __m512i all = _mm512_add_epi32(_mm512_set1_epi32(first), load512(lanes));
    // Compressed in a register, since compressing to memory is microcode on Zen 4.
    _mm512_storeu_si512(rows, _mm512_maskz_compress_epi32(are, all));
    return __builtin_popcount(are);
}

// The product of one row's lowest bits, and the bound of its error that comes from the coarse
// scales.
struct LowBits {
    float more, off;
};
UNLADEN_INLINE LowBits low_bits_of(const uint8_t *bits, ScaleSpread row, int n_blocks,
                              const LowBitActivations::Blocks *x) {
    __m512 sum = _mm512_setzero_ps(), square = _mm512_setzero_ps();
    for (int b = 0; b < n_blocks; b += 16, bits += 64, ++x) {
        const __m512i line = _mm512_maskz_loadu_epi32(mask_of(n_blocks - b), bits);
        __m512i product = _mm512_setzero_si512();
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) {
            product = _mm512_dpbusd_epi32(product, shifted(line, i, 1, 1), load512(x->q[i]));
        }
        product = _mm512_sub_epi32(product, load512(x->sum));
        const __m512 blocks = _mm512_mul_ps(_mm512_cvtepi32_ps(product), _mm512_load_ps(x->d));
        sum = _mm512_add_ps(sum, blocks);
        square = _mm512_fmadd_ps(blocks, blocks, square);
    }
    return {row.scale * _mm512_reduce_add_ps(sum),
            row.spread * __builtin_sqrtf(_mm512_reduce_add_ps(square))};
}

// The same for n rows: see SecondLook::run.
inline void look_again(float *more, float *off, const int32_t *rows, int n, Weights w, int n_cols,
                        const CacheLine *prepared) {
    const auto *x = reinterpret_cast<const LowBitActivations::Blocks *>(prepared);
    constexpr int n_asked = 4;  // rows prefetched ahead; the hardware can't predict their places
    const int n_blocks = LowBitActivations::n_blocks(n_cols);
    const auto bits_of = [=](int row) {
        return ShortRest<const uint8_t>(w.rest, row, n_cols).bits(row % tile_rows);
    };
    const auto known_of = [=](int row) {
        return reinterpret_cast<const uint8_t *>(w.known + ShortDivided<false>::known_at(row));
    };
    for (int i = -n_asked; i < n; ++i) {
        if (i + n_asked < n) {
            const int row = rows[i + n_asked];
            ask_lines(bits_of(row), (n_blocks * rest_bytes_of<Q4_0> + 63) / 64, false);
            ask_line(known_of(row));
        }
        if (i < 0) continue;
        const auto known = bits::load<ScaleSpread>(known_of(rows[i]));
        const LowBits low = low_bits_of(bits_of(rows[i]), known, n_blocks, x);
        more[i] = low.more, off[i] = low.off;
    }
}

// Linear::interleave of divided rows with short scales.
inline void divide_short(uint8_t *to, uint8_t *rest, float *known, const uint8_t *w, int n_rows,
                         int n_cols) {
    shorten_to<ShortDivided<false>, ShortDividedPlace>(to, rest, known, w, n_rows, n_cols);
    measure_short(known, w, n_rows, n_cols);
}

constexpr SecondLook second_look = {LowBitActivations::n_lines, LowBitActivations::prepare,
                                    rows_in_question, look_again};

}  // namespace unladen::cpu::UNLADEN_ISA
