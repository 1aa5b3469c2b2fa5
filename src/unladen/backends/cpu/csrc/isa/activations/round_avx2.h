// Rounding with AVX2, to the same bits as quantize() in round.cc: eight blocks of 32 together, or
// one block of 256.
#pragma once

#include "backends/cpu/csrc/isa/simd/int.h"
#include "backends/cpu/csrc/isa/simd/float.h"

namespace unladen::cpu::UNLADEN_ISA {

#if defined(__AVX2__) && !defined(__AVX512F__)
#define UNLADEN_PACK256

// The largest |x| of 32 numbers, lane by lane, as bit patterns, which order NaN above infinity.
UNLADEN_INLINE __m256i sizes32(const float *x) {
    const auto size = [=](int i) {
        return _mm256_and_si256(load256(x + i), _mm256_set1_epi32(0x7fffffff));
    };
    return _mm256_max_epu32(_mm256_max_epu32(size(0), size(8)),
                            _mm256_max_epu32(size(16), size(24)));
}

struct RoundedSums {
    vec products = {}, squares = {}, codes = {};
};

// The codes of 32 numbers, nearest to inverse * x. Adds to `sums` the products of codes and
// numbers, the codes' squares, and the codes.
UNLADEN_INLINE Bytes32 round32(const float *x, float inverse, RoundedSums &sums) {
    constexpr float shift = 0x1.8p23f;
    __m256i whole[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        const vec scaled = load(x + 8 * i) * inverse, rounded = scaled + shift - shift;
        sums.products = fma(scaled, rounded, sums.products);
        sums.squares = fma(rounded, rounded, sums.squares);
        sums.codes += rounded;
        whole[i] = _mm256_cvtps_epi32((__m256)rounded);
    }
    const __m256i codes = _mm256_packs_epi16(_mm256_packs_epi32(whole[0], whole[1]),
                                             _mm256_packs_epi32(whole[2], whole[3]));
    // The pack instructions worked on both halves of a register separately.
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return {_mm256_permutevar8x32_epi32(codes, order)};
}

// Lane b of the result is `op` over all lanes of v[b]: first lanes i and i + 4, then i and i + 2,
// and so on, as in simd/float.h.
template <class Op>
UNLADEN_INLINE vec of_each(vec (&v)[8], Op op) {
    transpose(v);
#pragma GCC unroll 4
    for (int n = 4; n > 0; n /= 2) {
#pragma GCC unroll 4
        for (int i = 0; i < n; ++i) v[i] = op(v[i], v[i + n]);
    }
    return v[0];
}

constexpr int eight_k = 8 * 32;

// Eight blocks: codes, scales, and sums of codes.
UNLADEN_INLINE void quantize_eight(int8_t *q, float *d, float *total, const float *x) {
    const auto plus = [](vec a, vec b) { return a + b; };
    const auto largest = [](vec a, vec b) {
        return (vec)_mm256_max_epu32((__m256i)a, (__m256i)b);
    };
    vec products[8], squares[8], codes[8];
#pragma GCC unroll 1
    for (int b = 0; b < 8; ++b) products[b] = (vec)sizes32(x + 32 * b);
    const vec magnitude = of_each(products, largest);
    const auto is_any = magnitude >= 1e-30f;
    alignas(32) float inverse[8];
    store(inverse, is_any ? 127.0f / magnitude : vec{});
#pragma GCC unroll 1
    for (int b = 0; b < 8; ++b) {
        RoundedSums sums;
        round32(x + 32 * b, inverse[b], sums).store(reinterpret_cast<uint8_t *>(q + 32 * b));
        products[b] = sums.products, squares[b] = sums.squares, codes[b] = sums.codes;
    }
    const vec square = of_each(squares, plus), product = of_each(products, plus);
    const vec factor = square == 0.0f ? splat(1.0f) : product / square;
    store(d, magnitude / 127.0f * factor);
    store(total, of_each(codes, plus));
}

// Minus the sums of sixteens of 256 codes.
UNLADEN_INLINE void put_minus(int16_t *minus, const int8_t *q) {
    const auto sums = [&](int s) {  // sums of eights, plus 1024
        return _mm256_sad_epu8(_mm256_xor_si256(load256(q + 32 * s), _mm256_set1_epi8(char(0x80))),
                               _mm256_setzero_si256());
    };
    const auto four = [&](int s) {
        return _mm256_hadd_epi32(_mm256_hadd_epi32(sums(s), sums(s + 1)),
                                 _mm256_hadd_epi32(sums(s + 2), sums(s + 3)));
    };
    // The first sixteens of four blocks of 32 below the second ones.
    const __m256i first = four(0), second = four(4);
    const __m256i low = _mm256_permute2x128_si256(first, second, 0x20);
    const __m256i high = _mm256_permute2x128_si256(first, second, 0x31);
    const __m256i all = _mm256_or_si256(low, _mm256_slli_epi32(high, 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(minus),
                        _mm256_sub_epi16(_mm256_set1_epi16(2048), all));
}

// A block of 256: codes, and minus the sums of sixteens. Returns the scale.
UNLADEN_INLINE float quantize_256(int8_t *q, int16_t *minus, const float *x) {
    __m256i most = sizes32(x);
    for (int i = 32; i < 256; i += 32) most = _mm256_max_epu32(most, sizes32(x + i));
    __m128i all = _mm_max_epu32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    all = _mm_max_epu32(all, _mm_unpackhi_epi64(all, all));
    all = _mm_max_epu32(all, _mm_shuffle_epi32(all, 1));
    const float magnitude = _mm_cvtss_f32(_mm_castsi128_ps(all));
    const float inverse = magnitude >= 1e-30f ? 127.0f / magnitude : 0.0f;
    RoundedSums sums;
#pragma GCC unroll 1
    for (int i = 0; i < 256; i += 32) {
        round32(x + i, inverse, sums).store(reinterpret_cast<uint8_t *>(q + i));
    }
    put_minus(minus, q);
    const float square = sum(sums.squares);
    return magnitude / 127.0f * (square == 0.0f ? 1.0f : sum(sums.products) / square);
}

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
