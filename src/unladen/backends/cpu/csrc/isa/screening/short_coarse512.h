// Divided rows of a Q4_0 head with short scales. Coarse rows lack the four lowest bits of all
// scales and, in four blocks of eight, the lowest bit of codes: 14 % of the bytes. If all codes
// lacked a bit, half of all rows could still have the largest product. A second look reads the
// lacking bits of codes for single rows, so these are stored row by row.
#pragma once

#include "backends/cpu/csrc/isa/products/short_scales512.h"
#include "backends/cpu/csrc/isa/screening/bound.h"

namespace unladen::cpu::UNLADEN_ISA {

// Eight blocks of sixteen rows. Coarse: the scales' high bits, the codes of four blocks, and three
// bits of the codes of the other four. Rest: the lowest bits of these codes, row by row, four bytes
// a block, inverted where the scale is negative; then the low bits of all scales; then bits 11 to
// 14 of the scales, see Shortened.
template <bool screens>
struct ShortDivided {
    using Each = Q4_0;
    using Last = Choose<screens, Coarse<Q4_0>, Whole<Q4_0>>;
    static constexpr bool is_coarse = screens, is_scattered = true;
    static constexpr int n_blocks = 8, n_alike = 4, n_last = n_blocks - n_alike;
    static constexpr int block_size = 32 * n_blocks;
    static constexpr int code_bytes = Q4_0::block_bytes - 2, scale_bytes = n_blocks;
    static constexpr int bit_bytes = n_last * rest_bytes_of<Q4_0>, low_bytes = n_blocks * 4 / 8;
    static constexpr int block_bytes = scale_bytes + n_blocks * code_bytes - bit_bytes;
    static constexpr int spared_bytes = bit_bytes + low_bytes;
    static constexpr int apart_bytes = spared_bytes + n_blocks * 4 / 8;
    // The known numbers of sixteen rows before their scales' origin: their reach, their reach if
    // only bits of scales are lacking, and two numbers for each row, see ScaleSpread.
    static constexpr int n_known_before = 2 + 2 * tile_rows;
    static constexpr size_t known_at(int row) {
        return size_t(row / tile_rows) * n_known + 2 + 2 * (row % tile_rows);
    }
    static constexpr int n_known = n_known_before + ScaleOrigin::n_bytes / int(sizeof(float));

    // The byte at which block b's codes begin.
    static constexpr int codes_at(int b) {
        const int n_before = b < n_alike ? 0 : b - n_alike;
        return tile_rows * (scale_bytes + b * code_bytes - n_before * rest_bytes_of<Q4_0>);
    }
};

// The rest of sixteen rows of n times eight blocks.
template <class Byte>
struct ShortRest {
    using T = ShortDivided<false>;
    Byte *p;
    size_t n;

    UNLADEN_INLINE ShortRest(Byte *all, int row, int n_cols) : n(n_cols / T::block_size) {
        p = all + row / tile_rows * bytes();
    }
    UNLADEN_INLINE size_t bytes() const { return n * tile_rows * T::apart_bytes; }
    UNLADEN_INLINE Byte *bits(int row) const { return p + row * bit_stride(); }
    UNLADEN_INLINE size_t bit_stride() const { return n * T::bit_bytes; }
    UNLADEN_INLINE Byte *low(size_t i) const {
        return p + tile_rows * (n * T::bit_bytes + i * T::low_bytes);
    }
    UNLADEN_INLINE Byte *high(size_t i) const { return low(n + i); }
    // The address that products with the whole rest prefetch at the i-th eight blocks: in the rest
    // of the next sixteen rows, since each row's bits are one stretch; two places further on, so
    // that it arrives in time.
    UNLADEN_INLINE Byte *ahead(size_t i) const {
        const size_t there = i + 2 < n ? i + 2 : i + 2 - n;
        return p + bytes() * (i + 2 < n ? 1 : 2) + there * tile_rows * T::spared_bytes;
    }
};

struct ShortDividedPlace {
    using T = ShortDivided<false>;
    uint8_t *to;
    ShortRest<uint8_t> apart;

    ShortDividedPlace(uint8_t *all, uint8_t *rest, int row, int n_cols)
        : to(all + size_t(row) * (n_cols / T::block_size) * T::block_bytes),
          apart(rest, row, n_cols) {}
    uint8_t *scales(int i) const { return to + size_t(i) * tile_rows * T::block_bytes; }
    uint8_t *low(int i) const { return apart.low(i); }
    uint8_t *high(int i) const { return apart.high(i); }
    void put_codes(int i, int b, const uint8_t *block) const {
        uint8_t *codes = scales(i) + T::codes_at(b);
        if (b < T::n_alike) {
            std::memcpy(codes, block + 2 * tile_rows, tile_rows * T::code_bytes);
            return;
        }
        __m512i lines[8], planes[3], low;
        for (int j = 0; j < 8; ++j) lines[j] = InLanes<Q4_0>::line({block}, j);
        InLanes<Whole<Q4_0>>::join(lines, planes, low);
        for (int j = 0; j < 3; ++j) _mm512_storeu_si512(codes + 64 * j, planes[j]);
        alignas(64) uint32_t low_bits[tile_rows];
        _mm512_store_si512(low_bits, low);
        for (int r = 0; r < tile_rows; ++r) {
            const bool inverts = bits::load<int16_t>(block + 2 * r) < 0;
            const uint32_t four = inverts ? ~low_bits[r] : low_bits[r];
            std::memcpy(apart.bits(r) + i * T::bit_bytes + (b - T::n_alike) * sizeof four, &four,
                        sizeof four);
        }
    }
};

template <bool screens>
struct ShortDividedBlock {
    using T = ShortDivided<screens>;
    const uint8_t *p, *bits, *low_bits, *high, *origin, *ahead;
    size_t bit_stride;

    UNLADEN_INLINE const uint8_t *low() const { return low_bits; }
    UNLADEN_INLINE Interleaved block(int b) const {
        return {p + T::codes_at(b) - 2 * tile_rows};
    }
    UNLADEN_INLINE void ask_rest(bool into_l1) const {
        if (!screens) ask_lines(ahead, tile_rows * T::spared_bytes / 64, into_l1);
    }
};
template <bool screens>
struct BlockIn<ShortDivided<screens>> {
    using type = ShortDividedBlock<screens>;
};

template <class T>
    requires requires { T::spared_bytes; }
UNLADEN_INLINE Block<T> interleaved_at(const Job &job, int row, int k, uint8_t *) {
    const size_t i = k / T::block_size;
    const ShortRest<const uint8_t> rest(job.rest, row, job.n_cols);
    return {job.w + row * job.row_bytes + i * tile_rows * T::block_bytes,
            rest.bits(0) + i * T::bit_bytes, rest.low(i), rest.high(i),
            reinterpret_cast<const uint8_t *>(job.known + row / tile_rows * T::n_known +
                                              T::n_known_before),
            rest.ahead(i), rest.bit_stride()};
}

template <>
struct LastCodes<ShortDivided<true>> {
    using T = ShortDivided<true>;
    Block<T> w;
    UNLADEN_INLINE LastCodes(const Block<T> &block, const ShortScales<T> &) : w(block) {}
    UNLADEN_INLINE Interleaved block(int b) const { return w.block(b); }
};
// The lowest bits in the order of lines: four bytes of each row for each block.
template <>
struct LastCodes<ShortDivided<false>> {
    using T = ShortDivided<false>;
    Block<T> w;
    alignas(64) uint8_t low[T::n_last][64];

    UNLADEN_INLINE LastCodes(const Block<T> &block, const ShortScales<T> &scales) : w(block) {
        static_assert(T::n_last == 4);
        __m512i rows[4], pairs[4];
        // Every fourth row.
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) {
            const auto row = [&](int i) __attribute__((always_inline)) {
                return load128(w.bits + (4 * i + r) * w.bit_stride);
            };
            rows[r] = _mm512_castsi128_si512(row(0));
            rows[r] = _mm512_inserti32x4(rows[r], row(1), 1);
            rows[r] = _mm512_inserti32x4(rows[r], row(2), 2);
            rows[r] = _mm512_inserti32x4(rows[r], row(3), 3);
        }
#pragma GCC unroll 2
        for (int r = 0; r < 4; r += 2) {
            pairs[r] = _mm512_unpacklo_epi32(rows[r], rows[r + 1]);
            pairs[r + 1] = _mm512_unpackhi_epi32(rows[r], rows[r + 1]);
        }
#pragma GCC unroll 2
        for (int b = 0; b < 2; ++b) {
            put(2 * b, _mm512_unpacklo_epi64(pairs[b], pairs[b + 2]), scales);
            put(2 * b + 1, _mm512_unpackhi_epi64(pairs[b], pairs[b + 2]), scales);
        }
    }
    UNLADEN_INLINE CoarseAndRest block(int b) const { return {w.block(b), low[b - T::n_alike]}; }

private:
    UNLADEN_INLINE void put(int i, __m512i bits, const ShortScales<T> &scales) {
        const __m512i scale = load512(scales.of[T::n_alike + i]);
        _mm512_store_si512(low[i], _mm512_xor_si512(bits, _mm512_srai_epi32(scale, 31)));
    }
};

// In the last blocks, a coarse row is off by half a scale times each activation, up or down.
// `scale`: half of the mean magnitude of these coarse scales. `spread`: the length of the
// differences between half of each magnitude and `scale`.
struct ScaleSpread {
    float scale, spread;
};

// Adds the squares of the errors of a block whose scale is counted from `least`. The lacking bits
// of the scale affect all codes, which are at most 8. In the last four of eight blocks each code is
// also off by half a step, possibly all in the same direction, so magnitudes of activations are
// summed. After a second look only the errors of scales are left. Returns the magnitude of the
// coarse scale.
inline double add_squares(Squares &to, const uint8_t *block, bool is_last, int least) {
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
    return near < 0 ? -near : near;
}
inline bool is_last(int block) {
    return block % ShortDivided<true>::n_blocks >= ShortDivided<true>::n_alike;
}
inline void measure_short(float *known, const uint8_t *w, int n_rows, int n_cols) {
    using T = ShortDivided<true>;
    const int n_blocks = n_cols / 32, n_last = n_blocks * T::n_last / T::n_blocks;
    const auto squares_of = [=](const uint8_t *row, int n) {
        const auto *origin = reinterpret_cast<const uint8_t *>(
            known + n / tile_rows * T::n_known + T::n_known_before);
        const int counted_from = bits::load<uint16_t>(origin + 2 * (n % tile_rows));
        const int least = counted_from == ScaleOrigin::wide_mark ? 0 : counted_from;
        Squares squares;
        double sum = 0, square = 0;
        for (int b = 0; b < n_blocks; ++b, row += Q4_0::block_bytes) {
            const double half = 0.5 * add_squares(squares, row, is_last(b), least);
            if (!is_last(b)) continue;
            sum += half, square += half * half;
        }
        // Around the rounded mean, and a little larger, since this is rounded, too.
        const float mean = float(sum / n_last);
        const double around = square - 2.0 * mean * sum + double(mean) * mean * n_last;
        const double most = (around < 0 ? 0 : around) + 1e-12 * square;
        const ScaleSpread low = {mean, float(1.0001 * __builtin_sqrt(most))};
        std::memcpy(known + T::known_at(n), &low, sizeof low);
        return squares;
    };
    measure_rows(known, T::n_known, w, size_t(n_blocks) * Q4_0::block_bytes, n_rows, n_blocks,
                 squares_of);
}

inline Lengths lengths_short(const void *act, int n_rows, int n_cols, int t) {
    return lengths_by<Q4_0>(act, n_rows, n_cols, t, [](BlockSums sums, int k) {
        return double(sums.squares) + (is_last(k / 32) ? double(sums.sizes) * sums.sizes : 0);
    });
}

}  // namespace unladen::cpu::UNLADEN_ISA
