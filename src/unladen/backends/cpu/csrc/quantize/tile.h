// The data of quantizers: as many blocks as a vector has lanes, one in each lane. Code is written
// as for a single block. Lanes are independent, so the result for a block depends neither on its
// neighbours nor on the level.
//
// Nothing in here is fused: a multiplication and an addition are rounded one after the other. With
// that and with the order of its sums the search finds, bit for bit, what llama.cpp's finds.
#pragma once

#include "backends/cpu/csrc/isa/simd/float.h"

namespace unladen::cpu::UNLADEN_ISA {

typedef uint8_t bvec __attribute__((vector_size(lanes)));
typedef uint16_t wvec __attribute__((vector_size(2 * lanes)));

static inline vec smaller(vec a, vec b) {
#if defined(__AVX512F__)
    return (vec)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vec)_mm256_min_ps((__m256)a, (__m256)b);
#else
    return a < b ? a : b;
#endif
}

static inline vec root(vec a) {
#if defined(__AVX512F__)
    return (vec)_mm512_sqrt_ps((__m512)a);
#elif defined(__AVX2__)
    return (vec)_mm256_sqrt_ps((__m256)a);
#else
    for (int i = 0; i < lanes; ++i) a[i] = __builtin_sqrtf(a[i]);
    return a;
#endif
}

// The next whole number, ties to even, of a below 2^22.
static inline vec nearest(vec a) {
#if defined(__AVX512F__)
    return (vec)_mm512_roundscale_ps((__m512)a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__)
    return (vec)_mm256_round_ps((__m256)a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    return (a + 12582912.0f) - 12582912.0f;
#endif
}

// The same as an integer; for larger numbers, the low bits of a + 1.5 * 2^23.
static inline ivec nearest_int(vec a) {
    return ((ivec)(a + 12582912.0f) & 0x007fffff) - 0x00400000;
}

static inline vec to_vec(ivec a) { return __builtin_convertvector(a, vec); }
static inline ivec to_ivec(vec a) { return __builtin_convertvector(a, ivec); }
static inline bvec to_bytes(ivec a) { return __builtin_convertvector(a, bvec); }

static inline ivec choose(ivec mask, ivec a, ivec b) { return (mask & a) | (~mask & b); }
static inline ivec clamp(ivec a, int low, int high) {
    a = a < low ? ivec{} + low : a;
    return a > high ? ivec{} + high : a;
}

static inline bool any(ivec mask) {
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask);
#elif defined(__AVX2__)
    return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#else
    return mask[0] | mask[1] | mask[2] | mask[3];
#endif
}

// 1 / d; 0 where that is NaN or infinite, so that such a block counts as zeros.
static inline vec reciprocal(vec d) {
    const vec inverse = 1.0f / d;
    return choose(magnitude(inverse) <= 0x1.fffffep127f, inverse, vec{});
}

// The number of each block with the largest magnitude, the first of several.
static inline vec peak(const vec *x, int n) {
    vec top = {}, found = {};
    for (int i = 0; i < n; ++i) {
        const vec size = magnitude(x[i]);
        found = choose(size > top, x[i], found);
        top = max(size, top);
    }
    return found;
}

// sum of x[i]^2, in order.
static inline vec sum_of_squares(const vec *x, int n) {
    vec sum = {};
    for (int i = 0; i < n; ++i) sum += x[i] * x[i];
    return sum;
}

// Float16 as bits, nearest, ties to even.
static inline ivec half_bits(vec v) {
#if defined(__AVX512F__)
    return (ivec)_mm512_cvtepu16_epi32(
        _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
    ivec bits;
    for (int i = 0; i < lanes; ++i) bits[i] = to_f16(v[i]);
    return bits;
#endif
}

static inline vec half_value(ivec bits) {
#if defined(__AVX512F__)
    return (vec)_mm512_cvtph_ps(_mm512_cvtepi32_epi16((__m512i)bits));
#else
    vec v;
    for (int i = 0; i < lanes; ++i) v[i] = from_f16(uint16_t(bits[i]));
    return v;
#endif
}

static inline ivec beyond_half(ivec bits) { return (bits & 0x7c00) == 0x7c00; }

struct Tile {
    const vec *x;           // the weights of the blocks
    const vec *importance;  // weight of each weight's error, or nullptr: all have the same
    vec row_square;         // mean square of each block's row; only with importance
    bvec *bytes;            // the bytes of the blocks, the result
    ivec wrong = {};        // lanes whose scale float16 can't hold

    void byte(int at, bvec value) { bytes[at] = value; }
    void byte(int at, ivec value) { bytes[at] = to_bytes(value); }

    // Stores v as float16 at byte `at`, and returns the stored number.
    vec half(int at, vec v) {
        const ivec stored = half_bits(v);
        byte(at, stored);
        byte(at + 1, stored >> 8);
        wrong |= beyond_half(stored);
        return half_value(stored);
    }

    // Packs the lowest `width` bits of n fields q >> shift from byte `at` on: each run of `group`
    // bytes holds first the fields of `group` weights, then, further up, those of the next.
    template <int n, int width, int group>
    void pack(const bvec *q, int shift, int at) {
        constexpr int per_byte = 8 / width;
        for (int run = 0; run < n; run += per_byte * group) {
            for (int j = 0; j < group; ++j) {
                bvec packed = {};
#pragma GCC unroll 8
                for (int k = 0; k < per_byte; ++k) {
                    const bvec field = q[run + k * group + j] >> uint8_t(shift);
                    packed |= (field & uint8_t((1 << width) - 1)) << uint8_t(k * width);
                }
                byte(at++, packed);
            }
        }
    }

    // The weights of errors in most searches: importance[i] * sqrt(square + x[i]^2), for n weights
    // from `first` on; `square` is the mean square of weights around them.
    void weigh(vec *weights, int first, int n, vec square) const {
        for (int i = first; i < first + n; ++i)
            weights[i - first] = importance[i] * root(square + x[i] * x[i]);
    }
};

// Writes weights as blocks of the format T with `quantize(tile)`, or for formats without blocks
// with `convert`. Formats without a specialization can only be read.
template <class T>
struct Quantizer;

}  // namespace unladen::cpu::UNLADEN_ISA
