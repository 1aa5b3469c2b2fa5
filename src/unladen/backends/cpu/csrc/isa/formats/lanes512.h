// Sixteen weight rows at once, one in each 32-bit lane of AVX-512 registers, and the layout of
// their interleaved blocks.
//
// A block of sixteen rows takes as many bytes as before. They are in the order in which they are
// read, because the hardware prefetches by address: with d at the end of a block, Q6_K is read from
// memory at 0.92 of the speed. Byte a of a block is at 16 place(a): four bytes of all rows, then
// the next four; smaller fields row after row. The blocks of sixteen rows follow one another, then
// those of the next sixteen rows.
#pragma once

#include "backends/cpu/csrc/isa/simd/int_avx512.h"

namespace unladen::cpu::UNLADEN_ISA {

constexpr int tile_rows = interleaved_rows;

// The first n of sixteen lanes.
UNLADEN_INLINE __mmask16 mask_of(int n) {
    return n >= tile_rows ? __mmask16(-1) : n > 0 ? __mmask16((1u << n) - 1) : __mmask16(0);
}

// 16 bytes of each of sixteen rows: lane r of v[j] has bytes 4 j ... 4 j + 3 of row r.
struct Lanes {
    __m512i v[4];
};

// The same place in sixteen rows; that of row r is at p + r * stride.
struct Sixteen {
    const uint8_t *p;
    size_t stride;

    UNLADEN_INLINE Sixteen at(size_t offset) const { return {p + offset, stride}; }
    // Rows r, r + 4, r + 8 and r + 12, 16 bytes of each.
    UNLADEN_INLINE __m512i every_fourth(int r) const {
        const uint8_t *first = p + r * stride;
        __m512i v = _mm512_castsi128_si512(load128(first));
        v = _mm512_inserti32x4(v, load128(first + 4 * stride), 1);
        v = _mm512_inserti32x4(v, load128(first + 8 * stride), 2);
        return _mm512_inserti32x4(v, load128(first + 12 * stride), 3);
    }
    // 16 bytes of every row.
    UNLADEN_INLINE Lanes load() const {
        return transposed(every_fourth(0), every_fourth(1), every_fourth(2), every_fourth(3));
    }
    // 16 bytes of every row, without the first `skipped` of them.
    template <int skipped>
    UNLADEN_INLINE Lanes load_after() const {
        if constexpr (skipped == 0) return load();
        return transposed(_mm512_bsrli_epi128(every_fourth(0), skipped),
                          _mm512_bsrli_epi128(every_fourth(1), skipped),
                          _mm512_bsrli_epi128(every_fourth(2), skipped),
                          _mm512_bsrli_epi128(every_fourth(3), skipped));
    }
    // Lanes 4 i ... 4 i + 3 from the 128-bit lanes i of rows.
    static UNLADEN_INLINE Lanes transposed(__m512i a, __m512i b, __m512i c, __m512i d) {
        const __m512i ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d);
        const __m512i ab2 = _mm512_unpackhi_epi32(a, b), cd2 = _mm512_unpackhi_epi32(c, d);
        return {{_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd),
                 _mm512_unpacklo_epi64(ab2, cd2), _mm512_unpackhi_epi64(ab2, cd2)}};
    }
};

// An interleaved block of sixteen rows. Its functions take places in one row's block, as place()
// gives them.
struct Interleaved {
    const uint8_t *p;

    // Bytes i ... i + 3 of each row.
    UNLADEN_INLINE __m512i four(int i) const { return load512(p + 16 * i); }
    // The float16 at i.
    UNLADEN_INLINE __m512 half(int i) const { return _mm512_cvtph_ps(load256(p + 16 * i)); }
    UNLADEN_INLINE __m512i word(int i) const { return _mm512_cvtepu16_epi32(load256(p + 16 * i)); }
    UNLADEN_INLINE __m512i byte(int i) const { return _mm512_cvtepu8_epi32(load128(p + 16 * i)); }
};

// A block of T in sixteen rows.
template <class T>
struct BlockIn {
    using type = Interleaved;
};
template <class T>
using Block = typename BlockIn<T>::type;

// Moves w on by n blocks of T, or by n bytes of its codes.
template <class T>
UNLADEN_INLINE void skip_blocks(Interleaved &w, int n) {
    w.p += size_t(n) * tile_rows * T::block_bytes;
}
template <class T>
UNLADEN_INLINE void skip_codes(Interleaved &w, int n) {
    w.p += n;
}

// The bytes of each field of a block, in order: 1, 2, 4 or 16; and the place of the four bytes from
// byte a on, or of fewer for a smaller field. Formats without FieldSizes are never interleaved.
template <int... sizes>
struct FieldSizes {
    static constexpr int n = sizeof...(sizes), bytes[] = {sizes...};
    static constexpr int place(int a) { return a; }
};
template <class T>
struct Fields;

template <class T>
constexpr bool can_interleave = requires { Fields<T>::n; };

// InLanes<T>: a block of T in sixteen rows. line(w, i): codes 4 i ... 4 i + 3 of each row.
template <class T>
struct InLanes;

// The amount by which coarse codes are below the numbers that they stand for, 0 for whole codes.
template <class A>
constexpr int lacking() {
    if constexpr (requires { A::lacks; }) return A::lacks;
    return 0;
}

// Blocks of 32: w = scale * (code - bias), or, with bias 0, w = scale * code + min.

// The start of a sum of products of one column with a block's codes: minus the bias times the sum
// of the activations. That is faster than multiplying and adding floats.
template <class A>
UNLADEN_INLINE __m512i first_products(const int32_t *minus_sum) {
    constexpr unsigned bias = A::bias, lacks = lacking<A>();
    static_assert((bias & (bias - 1)) == 0 && (lacks & (lacks - 1)) == 0);
    const __m512i minus = _mm512_set1_epi32(*minus_sum);
    const __m512i sum = bias == 0 ? _mm512_setzero_si512()
                                  : _mm512_slli_epi32(minus, __builtin_ctz(bias));
    if constexpr (lacks == 0)
        return sum;
    else
        return _mm512_sub_epi32(sum, _mm512_slli_epi32(minus, __builtin_ctz(lacks)));
}

// Codes of four bits, from byte `first` of a block on.
UNLADEN_INLINE __m512i nibble_line(Interleaved w, int first, int i) {
    return nibbles(w.four(first + i % 4 * 4), i / 4);
}
// The same with a fifth bit of each code, in the four bytes at `fifth`.
UNLADEN_INLINE __m512i nibble_line(Interleaved w, int first, int fifth, int i) {
    // Line i's four bits, one in each byte of a lane, as 16 or 0.
    const __m512i four = _mm512_and_si512(down(w.four(fifth), 4 * i), _mm512_set1_epi32(15));
    const __m512i spread = _mm512_mullo_epi32(four, _mm512_set1_epi32(0x02040810));
    return either(nibble_line(w, first, i), masked(spread, 16));
}

// Blocks of 256: w = scale[i / sub] * code[i] - dmin * min[i / sub]. The scales include d. A bias
// of the codes becomes a min: the scale without d, with dmin = d times the bias. With
// `summed_bias`, for sub-blocks of 16, sums of products start from the bias instead of using a min.
// Codes of sub-block s may be times(s) as large, as they are in their bytes; the scale is divided
// by times(s). That saves a shift and changes no sum, since times(s) is a power of two. With a bias
// it depends on s % 2 only.

// Scales and minimums of 256 weights of sixteen rows.
struct Scales256 {
    alignas(64) float scale[16][16];  // [sub-block][row]
    alignas(64) int16_t min[8][32];   // [pair of sub-blocks][row][2]
    alignas(64) float dmin[16];

    UNLADEN_INLINE void put_scale(int s, __m512 d, __m512i value) {
        _mm512_store_ps(scale[s], _mm512_mul_ps(d, _mm512_cvtepi32_ps(value)));
    }
    // Writes the scales of sub-blocks s ... s + 3 of A, from four signed bytes per lane.
    template <class A>
    UNLADEN_INLINE void put_scales(int s, __m512 d, __m512i bytes) {
        const auto put = [&](int i, __m512i value) {
            put_scale(i, _mm512_mul_ps(d, _mm512_set1_ps(1.0f / A::times(i))), value);
        };
        put(s, _mm512_srai_epi32(_mm512_slli_epi32(bytes, 24), 24));
        put(s + 1, _mm512_srai_epi32(_mm512_slli_epi32(bytes, 16), 24));
        put(s + 2, _mm512_srai_epi32(_mm512_slli_epi32(bytes, 8), 24));
        put(s + 3, _mm512_srai_epi32(bytes, 24));
    }
    UNLADEN_INLINE void put_mins(int s, __m512i bytes) {
        const __m128i first = _mm_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1,
                                            13);
        const __m128i second = _mm_setr_epi8(-1, 2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1,
                                             15);
        put_min_pairs(s / 2, words(bytes, first));
        put_min_pairs(s / 2 + 1, words(bytes, second));
    }
    UNLADEN_INLINE void put_min_pairs(int pair, __m512i words) {
        _mm512_store_si512(min[pair], words);
    }
    UNLADEN_INLINE void put_dmin(__m512 d) { _mm512_store_ps(dmin, d); }
    UNLADEN_INLINE void put_bias(__m512 d, int bias) {
        put_dmin(_mm512_mul_ps(d, _mm512_set1_ps(float(bias))));
    }

private:
    static UNLADEN_INLINE __m512i words(__m512i bytes, __m128i pick) {
        const __m512i in_place = _mm512_shuffle_epi8(bytes, _mm512_broadcast_i32x4(pick));
        return _mm512_srai_epi16(in_place, 8);
    }
};

template <class A>
constexpr bool sums_bias = requires { A::summed_bias; };

// The start of the sums of products of sub-block s's codes with a column. times32 is 32 times minus
// the sum of the column's numbers.
template <class A>
UNLADEN_INLINE __m512i first_products256(const int32_t *times32, int s) {
    if constexpr (!sums_bias<A>) {
        return _mm512_setzero_si512();
    } else {
        const __m512i all = _mm512_set1_epi32(*times32);
        static_assert(A::sub == 16);
        const int bias = A::summed_bias * A::times(s);  // a power of two
        const __m512i sum = bias >= 32 ? _mm512_slli_epi32(all, __builtin_ctz(bias / 32))
                                       : _mm512_srai_epi32(all, __builtin_ctz(32 / bias));
        if constexpr (constexpr int lacks = lacking<A>(); lacks == 0)
            return sum;
        else
            return _mm512_sub_epi32(sum, _mm512_srai_epi32(all, __builtin_ctz(32 / lacks)));
    }
}

struct TimesOne {
    static constexpr int times(int) { return 1; }
};

// Two bits of line i, which are 32 bytes for each 128 weights, from byte `first` of a block on.
template <class T>
UNLADEN_INLINE __m512i two_bits(Interleaved w, int first, int i, int to) {
    const int at = Fields<T>::place(first + i / 32 * 32 + i % 8 * 4);
    return shifted(w.four(at), i % 32 / 8 * 2, 2, to);
}

}  // namespace unladen::cpu::UNLADEN_ISA
