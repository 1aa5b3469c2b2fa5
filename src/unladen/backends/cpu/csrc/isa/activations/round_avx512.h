// Panels of int8 with AVX-512: eight rows at a time become the columns of a panel. In a single row
// sixteen blocks are rounded together.
#pragma once

#include "backends/cpu/csrc/isa/simd/transpose.h"

namespace unladen::cpu::UNLADEN_ISA {

#if defined(UNLADEN_AVX512)

// Sixteen registers hold this many k of eight columns.
constexpr int dealt_k = 128;

// Sums of sixteen k for column lane % 8. Lanes 0 to 7 of v[g] have those from k = 16 g on, the
// other lanes those from k = 64 + 16 g on.
struct DealtSums {
    __m512i v[4];

    // minus[k / 32][column]: minus the sums of 16.
    void store_pairs_of_16(int16_t *minus) const {
        store(minus, 0, pairs(v[0], v[1]));
        store(minus, 1, pairs(v[2], v[3]));
    }
    // minus[k / 64][column]: minus the sums of 32.
    void store_pairs_of_32(int16_t *minus) const {
        const __m512i both = pairs(_mm512_add_epi32(v[0], v[1]), _mm512_add_epi32(v[2], v[3]));
        _mm512_storeu_si512(minus, both);
    }
    // times32[k / 16][column]: 32 times minus the sums of 16.
    void store_times_32(int32_t *times32) const {
        auto *to = reinterpret_cast<__m256i *>(times32);
        for (int g = 0; g < 4; ++g) {
            const __m512i minus = _mm512_sub_epi32(_mm512_setzero_si512(), v[g]);
            const __m512i all = _mm512_slli_epi32(minus, 5);
            _mm256_storeu_si256(to + g, _mm512_castsi512_si256(all));
            _mm256_storeu_si256(to + 4 + g, _mm512_extracti64x4_epi64(all, 1));
        }
    }
    // The sums of 32 numbers, from 32 b on.
    __m256i block(int b) const {
        const __m512i sums = _mm512_add_epi32(v[b % 2 * 2], v[b % 2 * 2 + 1]);
        return b < 2 ? _mm512_castsi512_si256(sums) : _mm512_extracti64x4_epi64(sums, 1);
    }

private:
    static __m512i pairs(__m512i first, __m512i second) {
        const __m512i zero = _mm512_setzero_si512();
        const __m512i high = _mm512_slli_epi32(_mm512_sub_epi32(zero, second), 16);
        return _mm512_mask_mov_epi16(_mm512_sub_epi32(zero, first), 0xaaaaaaaa, high);
    }
    // The first half for the 32 k of number i, the second for that of number i + 2.
    static void store(int16_t *minus, int i, __m512i pairs) {
        auto *to = reinterpret_cast<__m256i *>(minus) + i;
        _mm256_storeu_si256(to, _mm512_castsi512_si256(pairs));
        _mm256_storeu_si256(to + 2, _mm512_extracti64x4_epi64(pairs, 1));
    }
};

// Writes dealt_k k of a panel's columns, which begin at `rows`, `stride` apart; returns their sums.
inline DealtSums deal(int8_t *panel, const int8_t *rows, size_t stride) {
    __m512i r[16];
    for (int c = 0; c < panel_columns; ++c) {
        r[c] = _mm512_loadu_si512(rows + c * stride);
        r[c + 8] = _mm512_loadu_si512(rows + c * stride + 64);
    }
    transpose(r);
    DealtSums sums;
    auto *to = reinterpret_cast<__m256i *>(panel);
    for (int i = 0; i < 16; ++i) {
        _mm256_storeu_si256(to + i, _mm512_castsi512_si256(r[i]));
        _mm256_storeu_si256(to + 16 + i, _mm512_extracti64x4_epi64(r[i], 1));
        const __m512i before = i % 4 ? sums.v[i / 4] : _mm512_setzero_si512();
        sums.v[i / 4] = _mm512_dpbusd_epi32(before, _mm512_set1_epi8(1), r[i]);
    }
    return sums;
}

struct Plus {
    __m512 operator()(__m512 a, __m512 b) const { return _mm512_add_ps(a, b); }
};
// The larger of two magnitudes, compared as bit patterns.
struct Largest {
    __m512 operator()(__m512 a, __m512 b) const {
        return _mm512_castsi512_ps(_mm512_max_epu32(_mm512_castps_si512(a),
                                                    _mm512_castps_si512(b)));
    }
};

// Lane b of the result is `op` over all lanes of v[b]: first lanes i and i + 8, then i and i + 4,
// and so on, as in simd/float.h.
template <class Op>
inline __attribute__((always_inline)) __m512 of_each(const __m512 (&v)[16], Op op) {
    __m512i lane[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) lane[i] = _mm512_castps_si512(v[i]);
    transpose(lane);
    __m512 all[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) all[i] = _mm512_castsi512_ps(lane[i]);
#pragma GCC unroll 4
    for (int n = 8; n > 0; n /= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < n; ++i) all[i] = op(all[i], all[i + n]);
    }
    return all[0];
}

constexpr int sixteen_k = 16 * 32;

// Sixteen blocks of 32, as quantize() makes them one by one: codes, scales, scales times the sums
// of codes, and minus these sums.
inline void quantize_sixteen(int8_t *q, float *d, float *sum, int32_t *minus, const float *x) {
    const __m512 none = _mm512_setzero_ps(), shift = _mm512_set1_ps(0x1.8p23f);
    __m512 of[16];
#pragma GCC unroll 16
    for (int b = 0; b < 16; ++b) {
        of[b] = Largest()(_mm512_abs_ps(_mm512_loadu_ps(x + 32 * b)),
                          _mm512_abs_ps(_mm512_loadu_ps(x + 32 * b + 16)));
    }
    const __m512 magnitude = of_each(of, Largest());
    const __mmask16 is_any = _mm512_cmp_ps_mask(magnitude, _mm512_set1_ps(1e-30f), _CMP_GE_OQ);
    alignas(64) float inverse[16];
    _mm512_store_ps(inverse, _mm512_maskz_div_ps(is_any, _mm512_set1_ps(127.0f), magnitude));
    __m512 squares[16], sums[16];
#pragma GCC unroll 4
    for (int b = 0; b < 16; ++b) {
        const __m512 scale = _mm512_set1_ps(inverse[b]);
        of[b] = squares[b] = sums[b] = none;
        for (int at = 32 * b; at < 32 * b + 32; at += 16) {
            const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x + at), scale);
            const __m512 shifted = _mm512_add_ps(scaled, shift);
            const __m512 rounded = _mm512_sub_ps(shifted, shift);
            _mm_storeu_si128(reinterpret_cast<__m128i *>(q + at),
                             _mm512_cvtepi32_epi8(_mm512_castps_si512(shifted)));
            of[b] = _mm512_fmadd_ps(scaled, rounded, of[b]);
            squares[b] = _mm512_fmadd_ps(rounded, rounded, squares[b]);
            sums[b] = _mm512_add_ps(sums[b], rounded);
        }
    }
    const __m512 product = of_each(of, Plus()), square = of_each(squares, Plus());
    const __m512 one = _mm512_set1_ps(1.0f);
    const __mmask16 is_zero = _mm512_cmp_ps_mask(square, none, _CMP_EQ_OQ);
    const __m512 factor = _mm512_mask_div_ps(one, __mmask16(~is_zero), product, square);
    const __m512 step = _mm512_div_ps(magnitude, _mm512_set1_ps(127.0f));
    const __m512 scales = _mm512_mul_ps(step, factor), total = of_each(sums, Plus());
    _mm512_storeu_ps(d, scales);
    _mm512_storeu_ps(sum, _mm512_mul_ps(scales, total));
    _mm512_storeu_si512(minus, _mm512_cvtps_epi32(_mm512_sub_ps(none, total)));
}

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
