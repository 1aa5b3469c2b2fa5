// Rows of an output head of Q4_0 in two parts, with shortened scales: the first lacks the four
// lowest bits of all scales and, in three blocks of eight, the lowest bit of codes, 11 % of what is
// read. One bit less of all codes would leave every row in question. Of rows that are in question
// these bits of codes are looked at first, which are a seventh of a row with the scales they need:
// what scales lack then leaves few.
#pragma once

#include "backends/cpu/csrc/isa/linear_screen.h"
#include "backends/cpu/csrc/isa/linear_short.h"

namespace unladen::cpu::UNLADEN_ISA {

template <>
struct Rest<Q4_0> {
    static constexpr int bytes = 4;
};
// A block whose codes are in parts: three bits in planes, and the lowest ones of eight lines, one
// above the other.
template <>
struct Across<Whole<Q4_0>> {
    static constexpr int bias = 8;
    static UNLADEN_INLINE __m512i line(InParts w, int i) {
        return with_bits(three_bits(w, i, 1), load512(w.rest), i, 1, 0);
    }
    // Line i's three bits, from bit `to` on.
    static UNLADEN_INLINE __m512i three_bits(Interleaved w, int i, int to) {
        const auto plane = [=](int j) __attribute__((always_inline)) { return w.four(2 + 4 * j); };
        return ThreePlanes::line(plane, i, to);
    }
    static UNLADEN_INLINE void join(const __m512i (&q)[8], __m512i (&planes)[3], __m512i &rest) {
        __m512i high[8];
        rest = _mm512_setzero_si512();
        for (int i = 0; i < 8; ++i) {
            high[i] = shifted(q[i], 1, 3, 0);
            rest = with_bits(rest, q[i], 0, 1, i);
        }
        ThreePlanes::join(high, planes);
    }
};
// Codes are twice as large, so that the middle of two is a whole number.
template <>
struct Across<Coarse<Q4_0>> {
    static constexpr int bias = 16, lacks = 1;
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        return Across<Whole<Q4_0>>::three_bits(w, i, 2);
    }
};

// What that lacks, of as large codes.
struct LowBits {
    static constexpr int block_size = 32;
};
template <>
struct BlockIn<LowBits> {
    using type = const uint8_t *;
};
template <>
struct Across<LowBits> {
    static constexpr int bias = 1;
    static UNLADEN_INLINE __m512i line(const uint8_t *rest, int i) {
        return shifted(load512(rest), i, 1, 1);
    }
};

// Eight blocks. Of sixteen rows: the first parts of scales, codes of five blocks, and three bits
// of the other three's. The second part: the scales' low bits, then the codes'; then the bits that
// scales have at `high`.
template <bool screens>
struct ShortParts {
    using Each = Q4_0;
    using Last = Choose<screens, Coarse<Q4_0>, Whole<Q4_0>>;
    static constexpr bool is_coarse = screens;
    static constexpr int n_blocks = 8, n_alike = 5, block_size = 32 * n_blocks;
    static constexpr int code_bytes = Q4_0::block_bytes - 2;
    static constexpr int last_code_bytes = code_bytes - Rest<Q4_0>::bytes;
    static constexpr int scale_bytes = n_blocks;
    static constexpr int n_last = n_blocks - n_alike;
    static constexpr int block_bytes =
        scale_bytes + n_alike * code_bytes + n_last * last_code_bytes;
    static constexpr int low_bytes = n_blocks * 4 / 8;
    static constexpr int spared_bytes = low_bytes + n_last * Rest<Q4_0>::bytes;
    static constexpr int apart_bytes = spared_bytes + n_blocks * 4 / 8, n_known_before = 2;
    static uint8_t *low(uint8_t *, uint8_t *apart) { return apart; }
    static uint8_t *high(uint8_t *apart) { return apart + tile_rows * spared_bytes; }
    static void put_codes(uint8_t *to, uint8_t *apart, int b, const uint8_t *block) {
        if (b < n_alike) return Shortened<Q4_0>::put_codes(to, apart, b, block);
        __m512i lines[8], planes[3], low;
        for (int i = 0; i < 8; ++i) lines[i] = Across<Q4_0>::line({block}, i);
        Across<Whole<Q4_0>>::join(lines, planes, low);
        for (int i = 0; i < 3; ++i) _mm512_storeu_si512(to + 64 * i, planes[i]);
        _mm512_storeu_si512(apart + low_at(b), low);
    }
    // Where codes' lowest bits are.
    static constexpr int low_at(int b) {
        return tile_rows * (low_bytes + (b - n_alike) * Rest<Q4_0>::bytes);
    }
    // Where block b's codes are.
    static constexpr int codes_at(int b) {
        const int n_before = b < n_alike ? 0 : b - n_alike;
        return tile_rows * (scale_bytes + b * code_bytes - n_before * Rest<Q4_0>::bytes);
    }

    template <class Scales>
    static UNLADEN_INLINE __m512 last_scale(const Scales &scales, int b) {
        const __m512 scale = _mm512_load_ps(scales.of[b]);
        return screens ? _mm512_mul_ps(scale, _mm512_set1_ps(0.5f)) : scale;
    }
};

template <bool screens>
struct ShortPartsBlock {
    using T = ShortParts<screens>;
    const uint8_t *p, *rest, *origin;
    const uint8_t *high = rest + tile_rows * T::spared_bytes;

    UNLADEN_INLINE const uint8_t *low() const { return rest; }
    UNLADEN_INLINE Interleaved block(int b) const {
        return {p + T::codes_at(b) - 2 * tile_rows};
    }
    UNLADEN_INLINE const uint8_t *low_bits(int b) const { return rest + T::low_at(b); }
    UNLADEN_INLINE Block<typename T::Last> last(int b) const {
        if constexpr (screens) return block(b);
        else return {block(b), low_bits(b)};
    }
    UNLADEN_INLINE void ask_rest(bool into_l1) const {
        constexpr size_t n_ahead = ahead_bytes / (tile_rows * T::block_bytes) + 1;
        if (screens) return;
        ask_lines(rest + n_ahead * tile_rows * T::apart_bytes,
                  tile_rows * T::spared_bytes / 64, into_l1);
    }
};
template <bool screens>
struct BlockIn<ShortParts<screens>> {
    using type = ShortPartsBlock<screens>;
};

// Products of what the first part lacks of codes.
struct LowOfParts : ShortParts<true> {
    static constexpr bool is_scattered = true;
};
template <>
struct BlockIn<LowOfParts> : BlockIn<ShortParts<true>> {};
template <class T, int columns>
struct FewLow {
    using Panel = Panel32Of<columns>;
    template <int n>
    static UNLADEN_INLINE void add(__m512 (&c)[n], Block<T> w, const Panel &x, int k, Further) {
        const ShortScales<true> scales(w);
#pragma GCC unroll 8
        for (int b = T::n_alike; b < T::n_blocks; ++b) {
            Few32<LowBits, columns>::add_block(c, w.low_bits(b), T::last_scale(scales, b), x,
                                               k + 32 * b, AskNothing());
        }
    }
};

// What is known of sixteen rows: their reach, that of what their scales lack alone, then what
// their scales are counted from.
constexpr int n_known_of_short =
    ShortParts<false>::n_known_before + ScaleOrigin::n_bytes / int(sizeof(float));

template <class T>
    requires requires { T::spared_bytes; }
UNLADEN_INLINE Block<T> interleaved_at(const Job &job, int row, int k, uint8_t *) {
    const size_t b = k / T::block_size;
    const size_t apart_row_bytes = job.n_cols / T::block_size * T::apart_bytes;
    return {job.w + row * job.row_bytes + b * tile_rows * T::block_bytes,
            job.rest + row * apart_row_bytes + b * tile_rows * T::apart_bytes,
            reinterpret_cast<const uint8_t *>(job.known + row / tile_rows * n_known_of_short +
                                              T::n_known_before)};
}

// What the first part lacks of a block whose scale is counted from `least`: of codes what the scale
// lacks, and in the last of eight half a code's step each, which activations meet all at once:
// those count as the sum of their sizes. No code is larger than 8. Where the lowest bits are looked
// at, what scales lack is left.
inline void add_squares(Squares &to, const uint8_t *block, bool is_last, int least) {
    const int half = bits::load<uint16_t>(block), size = (half & 0x7fff) - least;
    const int middle = size / 16 * 16 + 8 + least;
    const double d = bits::float_of_half(uint16_t(half));
    const double near = bits::float_of_half(uint16_t((half & 0x8000) | middle));
    const __m256i codes = _mm256_cvtepu8_epi16(load128(block + 2)), eight = _mm256_set1_epi16(8);
    const __m256i low = _mm256_and_si256(codes, _mm256_set1_epi16(15));
    const __m256i high = _mm256_srli_epi16(codes, 4);
    const int sum = total(_mm256_add_epi32(squares(_mm256_sub_epi16(low, eight)),
                                           squares(_mm256_sub_epi16(high, eight))));
    const double left = (d - near) * (d - near) * sum;
    to.left += left;
    to.lacking += left + (is_last ? 0.25 * near * near : 0);
    to.all += (d * d + near * near) * (32 * 8 * 8);
}
inline void measure_short(float *known, const uint8_t *w, int n_rows, int n_cols) {
    using T = ShortParts<true>;
    const int n_blocks = n_cols / 32;
    const auto squares_of = [=](const uint8_t *row, int n) {
        const auto *origin = reinterpret_cast<const uint8_t *>(
            known + n / tile_rows * n_known_of_short + T::n_known_before);
        const int counted_from = bits::load<uint16_t>(origin + 2 * (n % tile_rows));
        const int least = counted_from == ScaleOrigin::wide_mark ? 0 : counted_from;
        Squares squares;
        for (int b = 0; b < n_blocks; ++b, row += Q4_0::block_bytes) {
            add_squares(squares, row, b % T::n_blocks >= T::n_alike, least);
        }
        return squares;
    };
    measure_rows(known, n_known_of_short, w, size_t(n_blocks) * Q4_0::block_bytes, n_rows,
                 n_blocks, squares_of);
}

// Of an activation row; and where the lowest bits are looked at.
inline double length_short(const void *act, int n_rows, int n_cols, int t) {
    return length_of<Q4_0>(act, n_rows, n_cols, t, [](BlockSums sums, int k) {
        const bool is_last = k / 32 % ShortParts<true>::n_blocks >= ShortParts<true>::n_alike;
        return double(sums.squares) + (is_last ? double(sums.sizes) * sums.sizes : 0);
    });
}
inline double length_left(const void *act, int n_rows, int n_cols, int t) {
    return length_of<Q4_0>(act, n_rows, n_cols, t,
                           [](BlockSums sums, int) { return double(sums.squares); });
}

}  // namespace unladen::cpu::UNLADEN_ISA
