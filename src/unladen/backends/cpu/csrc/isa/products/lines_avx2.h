// The definitions of lines.h for AVX2: products of unsigned bytes with signed ones, added two by
// two into 16 bits. Signed codes are split into their magnitudes and into masks that flip the
// activations.
#pragma once

#include "backends/cpu/csrc/isa/simd/int.h"

namespace unladen::cpu::UNLADEN_ISA {

constexpr bool lines_are_unsigned = true;
// How many columns' sums with sixteen rows fit into registers.
constexpr int columns_at_once = 4;

// Dword j of row r, of eight, becomes dword r of the half of line j.
inline void deal(void *lines, int half, const Bytes32 (&rows)[8]) {
    uint8_t *to = static_cast<uint8_t *>(lines) + 32 * half;
    __m256i a[8], b[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_epi32(rows[i].v, rows[i + 1].v);
        a[i + 1] = _mm256_unpackhi_epi32(rows[i].v, rows[i + 1].v);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]);
        b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        const __m256i first = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        const __m256i second = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
        _mm256_store_si256(reinterpret_cast<__m256i *>(to + 64 * i), first);
        _mm256_store_si256(reinterpret_cast<__m256i *>(to + 64 * (i + 4)), second);
    }
}

inline void deal_halves(float *to, const uint8_t *p, size_t stride) {
    _mm256_store_ps(to, eight_halves(p, stride));
}

UNLADEN_INLINE __m256i half_of(const void *line, int half) {
    return _mm256_load_si256(static_cast<const __m256i *>(line) + half);
}
UNLADEN_INLINE __m256i broadcast4(const void *p) {
    return _mm256_set1_epi32(bits::load<int32_t>(static_cast<const uint8_t *>(p)));
}

// Forces a sum to be computed here. Compilers would otherwise add in trees, for which there are too
// few registers.
UNLADEN_INLINE void settle(__m256i &sum) { __asm__("" : "+x"(sum)); }

// How many pairs of products of codes up to `most` with |x| <= 127 can be summed in 16 bits, at
// most 8.
constexpr int pairs_in_16_bits(int most) {
    const int n = 32767 / (2 * 127 * most);
    return n >= 8 ? 8 : n >= 4 ? 4 : n >= 2 ? 2 : 1;
}

// The first or the second word of each pair, twice.
template <int which>
UNLADEN_INLINE __m256i twice(__m256i pairs) {
    const int pick = which ? 0x03020302 : 0x01000100;
    const __m256i at = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404,
                                         0x08080808, 0x0c0c0c0c);
    return _mm256_shuffle_epi8(pairs, _mm256_add_epi8(at, _mm256_set1_epi32(pick)));
}

template <int n>
struct LineSums {
    __m256i v[2][n];

    UNLADEN_INLINE void clear() {
#pragma GCC unroll 4
        for (int j = 0; j < n; ++j) v[0][j] = v[1][j] = _mm256_setzero_si256();
    }
    // Starts from a sum for each row.
    UNLADEN_INLINE void start(const int32_t *sums) {
#pragma GCC unroll 4
        for (int j = 0; j < n; ++j) v[0][j] = half_of(sums, 0), v[1][j] = half_of(sums, 1);
    }

    // Two words of each row times two of each column.
    UNLADEN_INLINE void add(const Pairs &words, const int16_t *x) {
        const __m256i w0 = half_of(&words, 0), w1 = half_of(&words, 1);
#pragma GCC unroll 4
        for (int j = 0; j < n; ++j) {
            const __m256i pair = broadcast4(x + 2 * j);
            v[0][j] = _mm256_add_epi32(v[0][j], _mm256_madd_epi16(w0, pair));
            v[1][j] = _mm256_add_epi32(v[1][j], _mm256_madd_epi16(w1, pair));
            settle(v[0][j]), settle(v[1][j]);
        }
    }

    UNLADEN_INLINE void multiply(int factor) {
#pragma GCC unroll 4
        for (int j = 0; j < n; ++j) {
            v[0][j] = _mm256_mullo_epi32(v[0][j], _mm256_set1_epi32(factor));
            v[1][j] = _mm256_mullo_epi32(v[1][j], _mm256_set1_epi32(factor));
        }
    }

    // 32 codes of each row, eight lines, times 32 activations of each column, times the rows'
    // scales: one for each 16 codes, or twice the same.
    template <class W>
    UNLADEN_INLINE void add(const Line *q, const int8_t *x, const Pairs &scales) {
        const __m256i s0 = half_of(&scales, 0), s1 = half_of(&scales, 1);
        if constexpr (W::sub == 32) {
            add_lines<W, 8>(q, x, s0, s1);
        } else {
            add_lines<W, 4>(q, x, twice<0>(s0), twice<0>(s1));
            add_lines<W, 4>(q + 4, x + 16 * panel_columns, twice<1>(s0), twice<1>(s1));
        }
    }
    // Without scales.
    template <class W>
    UNLADEN_INLINE void add(const Line *q, const int8_t *x) {
        add_lines<W, 8>(q, x, _mm256_set1_epi16(1), _mm256_set1_epi16(1));
    }
    // The same with magnitudes and flips of signed codes. 16 codes at a time if 16 bits hold more
    // than one line's pairs: 32 codes of IQ2_XXS at once take 1.2 times as long.
    template <class W>
    UNLADEN_INLINE void add(const Line *q, const Line *flip, const int8_t *x,
                            const Pairs &scales) {
        const __m256i s0 = half_of(&scales, 0), s1 = half_of(&scales, 1);
        constexpr bool one_scale = W::sub == 32;
        if constexpr (one_scale && pairs_in_16_bits(W::max_code) == 1) {
            add_flipped<W, 8>(q, flip, x, s0, s1);
        } else {
            add_flipped<W, 4>(q, flip, x, one_scale ? s0 : twice<0>(s0),
                              one_scale ? s1 : twice<0>(s1));
            add_flipped<W, 4>(q + 4, flip + 4, x + 16 * panel_columns,
                              one_scale ? s0 : twice<1>(s0), one_scale ? s1 : twice<1>(s1));
        }
    }
    template <class W>
    UNLADEN_INLINE void add(const Line *q, const Line *flip, const int8_t *x) {
        add_flipped<W, 8>(q, flip, x, _mm256_set1_epi16(1), _mm256_set1_epi16(1));
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
#pragma GCC unroll 2
            for (int h = 0; h < 2; ++h, c += 8) {
                const __m256 sum = _mm256_mul_ps(_mm256_cvtepi32_ps(v[h][j]),
                                                 _mm256_load_ps(d + 8 * h));
                __m256 all = _mm256_load_ps(c);
                all = _mm256_fmadd_ps(sum, _mm256_set1_ps(x_d[j]), all);
                if (m) {
                    all = _mm256_fmadd_ps(_mm256_load_ps(m + 8 * h), _mm256_set1_ps(x_sum[j]), all);
                }
                _mm256_store_ps(c, all);
            }
        }
    }

private:
    template <class W, int n_lines>
    UNLADEN_INLINE void add_lines(const Line *q, const int8_t *x, __m256i s0, __m256i s1) {
        constexpr int most = pairs_in_16_bits(W::max_code);
        constexpr int step = most < n_lines ? most : n_lines;
#pragma GCC unroll 8
        for (int i = 0; i < n_lines; i += step) {
            add_unsigned<step>(q + i, x + 4 * i * panel_columns, s0, s1);
        }
    }

    template <int n_lines>
    UNLADEN_INLINE void add_unsigned(const Line *q, const int8_t *x, __m256i s0, __m256i s1) {
        __m256i pairs[2][n];
#pragma GCC unroll 8
        for (int i = 0; i < n_lines; ++i, x += 4 * panel_columns) {
            const __m256i w0 = half_of(q[i], 0), w1 = half_of(q[i], 1);
#pragma GCC unroll 4
            for (int j = 0; j < n; ++j) {
                const __m256i four = broadcast4(x + 4 * j);
                const __m256i a = _mm256_maddubs_epi16(w0, four);
                const __m256i b = _mm256_maddubs_epi16(w1, four);
                pairs[0][j] = i ? _mm256_add_epi16(pairs[0][j], a) : a;
                pairs[1][j] = i ? _mm256_add_epi16(pairs[1][j], b) : b;
                settle(pairs[0][j]), settle(pairs[1][j]);
            }
        }
#pragma GCC unroll 4
        for (int j = 0; j < n; ++j) {
            v[0][j] = _mm256_add_epi32(v[0][j], _mm256_madd_epi16(pairs[0][j], s0));
            v[1][j] = _mm256_add_epi32(v[1][j], _mm256_madd_epi16(pairs[1][j], s1));
        }
    }

    // As with unsigned codes. A flipped x may be -128, and 16 bits hold these sums if they hold
    // those for 127.
    template <class W, int n_lines>
    UNLADEN_INLINE void add_flipped(const Line *q, const Line *flip, const int8_t *x, __m256i s0,
                                    __m256i s1) {
        constexpr int most = pairs_in_16_bits(W::max_code);
        constexpr int step = most < n_lines ? most : n_lines;
#pragma GCC unroll 8
        for (int i = 0; i < n_lines; i += step) {
            const int8_t *x_i = x + 4 * i * panel_columns;
            add_flipped_half<step, 0>(q + i, flip + i, x_i, s0);
            add_flipped_half<step, 1>(q + i, flip + i, x_i, s1);
        }
    }
    // Column by column if 16 bits hold only one line's pairs; this needs fewer registers.
    template <int n_lines, int h>
    UNLADEN_INLINE void add_flipped_half(const Line *q, const Line *flip, const int8_t *x,
                                         __m256i scale) {
        __m256i pairs[n];
#pragma GCC unroll 8
        for (int i = 0; i < n_lines; ++i, x += 4 * panel_columns) {
            const __m256i size = half_of(q[i], h), mask = half_of(flip[i], h);
#pragma GCC unroll 4
            for (int j = 0; j < n; ++j) {
                const __m256i flipped = _mm256_xor_si256(mask, broadcast4(x + 4 * j));
                const __m256i two = _mm256_maddubs_epi16(size, flipped);
                if constexpr (n_lines == 1) {
                    add_pairs<h>(j, two, scale);
                } else {
                    pairs[j] = i ? _mm256_add_epi16(pairs[j], two) : two;
                    settle(pairs[j]);
                }
            }
        }
        if constexpr (n_lines > 1) {
#pragma GCC unroll 4
            for (int j = 0; j < n; ++j) add_pairs<h>(j, pairs[j], scale);
        }
    }
    template <int h>
    UNLADEN_INLINE void add_pairs(int j, __m256i pairs, __m256i scale) {
        v[h][j] = _mm256_add_epi32(v[h][j], _mm256_madd_epi16(pairs, scale));
        settle(v[h][j]);
    }
};

// Lines of signed codes q, split: q becomes |q|, and `flip` is 255 where q was negative. A flipped
// x is -x - 1, so its product with |q| is too small by |q|. `start` has the sum of these
// differences.
template <int n_lines>
struct Flips {
    alignas(64) Line flip[n_lines];
    alignas(64) int32_t start[16];

    template <class W>
    void split(Line *q, const Pairs *scales) {
        for (int h = 0; h < 2; ++h) {
            __m256i sum = _mm256_setzero_si256();
            for (int i = 0; i < n_lines; i += 8) {
                const __m256i words = half_of(scales + i / 8, h), first = twice<0>(words);
                const __m256i second = W::sub == 16 ? twice<1>(words) : first;
#pragma GCC unroll 8
                for (int j = 0; j < 8; ++j) {
                    const __m256i lacking = split_half(q, i + j, h);
                    const __m256i sums = _mm256_madd_epi16(lacking, j < 4 ? first : second);
                    sum = _mm256_add_epi32(sum, sums);
                }
            }
            _mm256_store_si256(reinterpret_cast<__m256i *>(start) + h, sum);
        }
    }
    // Without scales.
    void split(Line *q) {
        for (int h = 0; h < 2; ++h) {
            __m256i pairs = _mm256_setzero_si256();
            for (int i = 0; i < n_lines; ++i) {
                pairs = _mm256_add_epi16(pairs, split_half(q, i, h));
            }
            _mm256_store_si256(reinterpret_cast<__m256i *>(start) + h,
                               _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        }
    }

private:
    // Sums of pairs of these differences.
    UNLADEN_INLINE __m256i split_half(Line *lines, int i, int half) {
        __m256i *q = reinterpret_cast<__m256i *>(lines[i]) + half;
        const __m256i size = _mm256_abs_epi8(*q);
        const __m256i mask = _mm256_cmpgt_epi8(_mm256_setzero_si256(), *q);
        *q = size;
        reinterpret_cast<__m256i *>(flip[i])[half] = mask;
        return _mm256_maddubs_epi16(_mm256_and_si256(size, mask), _mm256_set1_epi8(1));
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
