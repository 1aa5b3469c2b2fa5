// The definitions of lines.h for NEON: products of signed bytes, added four by four into 32 bits
// where the level has an instruction for it.
#pragma once

#include "backends/cpu/csrc/isa/simd/int.h"

namespace unladen::cpu::UNLADEN_ISA {

constexpr bool lines_are_unsigned = false;
// How many columns' sums with eight rows fit into registers.
constexpr int columns_at_once = 4;

// Dword j of row r, of eight, becomes dword r of 32 bytes at `to` + 64 j + 32 half.
inline void deal_dwords(uint8_t *to, int half, const Bytes32 (&rows)[8]) {
    for (int four = 0; four < 2; ++four) {
        for (int part = 0; part < 2; ++part) {
            uint32x4_t r[4];
            for (int i = 0; i < 4; ++i) r[i] = vreinterpretq_u32_u8(rows[4 * four + i].v[part]);
            const uint32x4_t even = vzip1q_u32(r[0], r[2]), odd = vzip1q_u32(r[1], r[3]);
            const uint32x4_t even2 = vzip2q_u32(r[0], r[2]), odd2 = vzip2q_u32(r[1], r[3]);
            const uint32x4_t dealt[] = {vzip1q_u32(even, odd), vzip2q_u32(even, odd),
                                        vzip1q_u32(even2, odd2), vzip2q_u32(even2, odd2)};
            uint8_t *at = to + 256 * part + 32 * half + 16 * four;
            for (int j = 0; j < 4; ++j) vst1q_u8(at + 64 * j, vreinterpretq_u8_u32(dealt[j]));
        }
    }
}

// Deals codes for products with the columns of a panel. If the level multiplies pairs of rows,
// eight codes of a row are side by side, and two lines have their codes in another order.
inline void deal(Line *to, int half, const Bytes32 (&rows)[8]) {
    if constexpr (panel_k == 4) {
        deal_dwords(to[0], half, rows);
    } else {
        for (int part = 0; part < 2; ++part) {
            for (int i = 0; i < 8; i += 2) {
                const uint64x2_t a = vreinterpretq_u64_u8(rows[i].v[part]);
                const uint64x2_t b = vreinterpretq_u64_u8(rows[i + 1].v[part]);
                uint8_t *at = to[4 * part + half] + 8 * i;
                vst1q_u8(at, vreinterpretq_u8_u64(vzip1q_u64(a, b)));
                vst1q_u8(at + 128, vreinterpretq_u8_u64(vzip2q_u64(a, b)));
            }
        }
    }
}
inline void deal(Pairs *to, int half, const Bytes32 (&rows)[8]) {
    deal_dwords(reinterpret_cast<uint8_t *>(to), half, rows);
}
inline void deal_halves(float *to, const uint8_t *p, size_t stride) {
    for (int r = 0; r < 8; ++r) to[r] = bits::half(p + r * stride);
}

#if defined(__ARM_FEATURE_MATMUL_INT8)

// acc[i][j] = rows 4 i ... 4 i + 3, of eight, of n_lines lines times column j.
template <int n_lines, int n>
UNLADEN_INLINE void multiply_lines(int32x4_t (&acc)[2][n], const Line *q, int half,
                                   const int8_t *x) {
    int32x4_t squares[4][n / 2];  // two rows, each with two columns
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
#pragma GCC unroll 2
        for (int j = 0; j < n / 2; ++j) squares[r][j] = vdupq_n_s32(0);
    }
#pragma GCC unroll 4
    for (int i = 0; i < n_lines; i += 2, x += 8 * panel_columns) {
        const int8_t *line = reinterpret_cast<const int8_t *>(q[i + half]);
#pragma GCC unroll 2
        for (int j = 0; j < n / 2; ++j) {
            const int8x16_t columns = vld1q_s8(x + 16 * j);
#pragma GCC unroll 4
            for (int r = 0; r < 4; ++r) {
                squares[r][j] = vmmlaq_s32(squares[r][j], vld1q_s8(line + 16 * r), columns);
            }
        }
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < n / 2; ++j) {
            acc[i][2 * j] = vuzp1q_s32(squares[2 * i][j], squares[2 * i + 1][j]);
            acc[i][2 * j + 1] = vuzp2q_s32(squares[2 * i][j], squares[2 * i + 1][j]);
        }
    }
}

#else

#if defined(__ARM_FEATURE_DOTPROD)
template <int j>
UNLADEN_INLINE int32x4_t add_column(int32x4_t sums, int8x16_t w, int8x16_t x) {
    return vdotq_laneq_s32(sums, w, x, j);
}
#else
template <int j>
UNLADEN_INLINE int32x4_t add_column(int32x4_t sums, int8x16_t w, int8x16_t x) {
    const int8x16_t four = vreinterpretq_s8_s32(vdupq_laneq_s32(vreinterpretq_s32_s8(x), j));
    return add_dots(sums, w, four);
}
#endif

template <int n_lines, int n>
UNLADEN_INLINE void multiply_lines(int32x4_t (&acc)[2][n], const Line *q, int half,
                                   const int8_t *x) {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < n; ++j) acc[i][j] = vdupq_n_s32(0);
    }
#pragma GCC unroll 8
    for (int i = 0; i < n_lines; ++i, x += 4 * panel_columns) {
        const int8_t *line = reinterpret_cast<const int8_t *>(q[i]) + 32 * half;
        const int8x16_t columns = vld1q_s8(x);
#pragma GCC unroll 2
        for (int r = 0; r < 2; ++r) {
            const int8x16_t w = vld1q_s8(line + 16 * r);
            acc[r][0] = add_column<0>(acc[r][0], w, columns);
            acc[r][1] = add_column<1>(acc[r][1], w, columns);
            if constexpr (n > 2) {
                acc[r][2] = add_column<2>(acc[r][2], w, columns);
                acc[r][3] = add_column<3>(acc[r][3], w, columns);
            }
        }
    }
}

#endif

template <int n>
struct LineSums {
    static_assert(n == 2 || n == 4);
    int32x4_t v[4][n];  // [four rows][column]

    UNLADEN_INLINE void clear() {
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
            for (int j = 0; j < n; ++j) v[i][j] = vdupq_n_s32(0);
        }
    }

    // Two words of each row times two of each column.
    UNLADEN_INLINE void add(const Pairs &words, const int16_t *x) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            const int16x4x2_t w = vld2_s16(words.of[4 * i]);
#pragma GCC unroll 4
            for (int j = 0; j < n; ++j) {
                v[i][j] = vmlal_n_s16(v[i][j], w.val[0], x[2 * j]);
                v[i][j] = vmlal_n_s16(v[i][j], w.val[1], x[2 * j + 1]);
            }
        }
    }

    // 32 codes of each row, eight lines, times 32 activations of each column, times the rows'
    // scales: one for each 16 codes, or twice the same.
    template <class W>
    UNLADEN_INLINE void add(const Line *q, const int8_t *x, const Pairs &scales) {
        constexpr int n_lines = W::sub / 4;
        for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 2
            for (int part = 0; part < 32 / W::sub; ++part) {
                int32x4_t acc[2][n];
                multiply_lines<n_lines>(acc, q + part * n_lines, half,
                                        x + part * 4 * n_lines * panel_columns);
#pragma GCC unroll 2
                for (int i = 0; i < 2; ++i) {
                    const int16x4x2_t both = vld2_s16(scales.of[8 * half + 4 * i]);
                    const int32x4_t scale = vmovl_s16(both.val[part]);
#pragma GCC unroll 4
                    for (int j = 0; j < n; ++j) {
                        v[2 * half + i][j] = vmlaq_s32(v[2 * half + i][j], acc[i][j], scale);
                    }
                }
            }
        }
    }
    // Without scales.
    template <class W>
    UNLADEN_INLINE void add(const Line *q, const int8_t *x) {
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half) {
            int32x4_t acc[2][n];
            multiply_lines<8>(acc, q, half, x);
#pragma GCC unroll 2
            for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 4
                for (int j = 0; j < n; ++j) {
                    v[2 * half + i][j] = vaddq_s32(v[2 * half + i][j], acc[i][j]);
                }
            }
        }
    }

    // c [column][16] += the sums, times a factor of each row and one of each column.
    UNLADEN_INLINE void add_to(float *c, const float *d, const float *x_d) const {
        add_to(c, d, x_d, nullptr, nullptr);
    }
    // The same, and += m times x_sum unless m is nullptr.
    UNLADEN_INLINE void add_to(float *c, const float *d, const float *x_d, const float *m,
                               const float *x_sum) const {
#pragma GCC unroll 4
        for (int j = 0; j < n; ++j) {
#pragma GCC unroll 4
            for (int i = 0; i < 4; ++i, c += 4) {
                const float32x4_t sum = vmulq_f32(vcvtq_f32_s32(v[i][j]), vld1q_f32(d + 4 * i));
                float32x4_t all = vfmaq_n_f32(vld1q_f32(c), sum, x_d[j]);
                if (m) all = vfmaq_n_f32(all, vld1q_f32(m + 4 * i), x_sum[j]);
                vst1q_f32(c, all);
            }
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
