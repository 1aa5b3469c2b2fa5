// One vector register of floats and its operations, with the same names at every level. Operations
// are elementwise or have a fixed order, so a result never depends on an element's lane.
#pragma once

#include "backends/cpu/csrc/isa/contract/level.h"

namespace unladen::cpu::UNLADEN_ISA {

#if defined(__AVX512F__)
inline constexpr int lanes = 16;
#elif defined(__AVX2__)
inline constexpr int lanes = 8;
#else
inline constexpr int lanes = 4;
#endif

// The numbers 0 .. n-1, for shuffles.
template <int... i>
struct Seq {};

template <int n, int... i>
struct Count : Count<n - 1, n - 1, i...> {};

template <int... i>
struct Count<0, i...> {
    using Type = Seq<i...>;
};

using LaneNumbers = Count<lanes>::Type;

typedef float vec __attribute__((vector_size(lanes * 4)));
typedef int32_t ivec __attribute__((vector_size(lanes * 4)));

static inline vec splat(float x) { return x - vec{}; }

static inline vec load(const float *p) {
    vec v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

static inline void store(float *p, vec v) { __builtin_memcpy(p, &v, sizeof v); }

// The first n <= lanes floats at p, then zeros. Memory after these floats isn't read.
static inline vec load_first(const float *p, int n) {
#if defined(__AVX512F__)
    return (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    vec v = {};
    __builtin_memcpy(&v, p, (size_t)n * sizeof(float));
    return v;
#endif
}

static inline void store_first(float *p, vec v, int n) {
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    __builtin_memcpy(p, &v, (size_t)n * sizeof(float));
#endif
}

// a * b + c; rounded once where the level has FMA.
static inline vec fma(vec a, vec b, vec c) {
#if defined(__AVX512F__)
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(UNLADEN_NEON)
    return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

// The larger; b where either is NaN.
static inline vec max(vec a, vec b) {
#if defined(__AVX512F__)
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return a > b ? a : b;
#endif
}

// a where the mask's lane is all ones, b where it is zero.
static inline vec choose(ivec mask, vec a, vec b) {
    return (vec)((mask & (ivec)a) | (~mask & (ivec)b));
}

static inline vec magnitude(vec a) { return (vec)((ivec)a & 0x7fffffff); }

// Lane i of the result is lane i ^ n of v.
template <int n, int... i>
static inline vec exchange(vec v, Seq<i...>) {
    return __builtin_shufflevector(v, v, (i ^ n)...);
}

// Sum and maximum over the lanes: first lanes i and i + lanes / 2, then i and i + lanes / 4, and so
// on.
template <int n = lanes / 2>
static inline float sum(vec v) {
    v += exchange<n>(v, LaneNumbers{});
    if constexpr (n > 1) return sum<n / 2>(v);
    return v[0];
}

template <int n = lanes / 2>
static inline float largest(vec v) {
    v = max(v, exchange<n>(v, LaneNumbers{}));
    if constexpr (n > 1) return largest<n / 2>(v);
    return v[0];
}

// p * 2^n for whole numbers n, rounded once, also to subnormals and to infinity.
static inline vec scale_by_power(vec p, vec n) {
#if defined(__AVX512F__)
    return (vec)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    // Two factors, since 2^n itself may be out of range; |n| <= 252.
    const ivec whole = __builtin_convertvector(n, ivec);
    const ivec half = whole >> 1;
    const vec first = (vec)((half + 127) << 23);
    const vec second = (vec)((whole - half + 127) << 23);
    return p * first * second;
#endif
}

// e^x for x < 88.7, with a relative error of at most 1.5 * 2^-23 (plus half a subnormal step); 0
// below -104; NaN stays NaN. The polynomial's own error on [-ln2/2, ln2/2] is 0.1 * 2^-24; the rest
// is rounding.
static inline vec exp_of_moderate(vec x) {
    // The result of these is 0, set here: rounding to 0 what is smaller than any number takes an
    // Intel core 240 cycles, and every score that is masked out of a softmax is such a case.
    const ivec none = x < splat(-104.5f);
    x = choose(none, vec{}, x);
    // Adding 1.5 * 2^23 leaves the nearest whole number in the low bits.
    const vec big = splat(12582912.0f);
    const vec n = fma(x, splat(1.44269504f), big) - big;
    // ln 2 in two parts, the first of 9 bits, so that n times it is exact.
    vec r = fma(n, splat(-0.693359375f), x);
    r = fma(n, splat(2.12194440e-4f), r);
    vec q = splat(1.3814467e-3f);
    q = fma(q, r, splat(8.3687808e-3f));
    q = fma(q, r, splat(4.1668393e-2f));
    q = fma(q, r, splat(1.66665196e-1f));
    q = fma(q, r, splat(4.9999994e-1f));
    q = fma(q, r * r, r) + 1.0f;
    return choose(none, vec{}, scale_by_power(q, n));
}

// The same for any x: infinity from 88.73 on.
static inline vec exp(vec x) { return exp_of_moderate(choose(x > 89.0f, splat(89.0f), x)); }

// ln(1 + x) for 0 <= x <= 1: twice the inverse hyperbolic tangent of x / (2 + x) <= 1/3, whose
// series is cut where the next term is below 2^-30 of it.
static inline vec log_1p(vec x) {
    const vec s = x / (x + 2.0f), z = s * s;
    vec p = splat(1.0f / 17);
    for (int n = 15; n > 0; n -= 2) p = fma(p, z, splat(1.0f / (float)n));
    return (s + s) * p;
}

// tanh with a relative error of at most 3 * 2^-23; NaN stays NaN. Up to 0.55 an odd polynomial
// fitted to 2^-29; above it (1 - e) / (1 + e) with e = e^-2|x|, whose numerator loses no digits
// there.
static inline vec tanh(vec x) {
    const vec size = magnitude(x), square = x * x;
    vec p = splat(-6.273981e-3f);
    p = fma(p, square, splat(2.107148e-2f));
    p = fma(p, square, splat(-5.3852256e-2f));
    p = fma(p, square, splat(1.3332586e-1f));
    p = fma(p, square, splat(-3.3333316e-1f));
    const vec e = exp(size * -2.0f);
    const vec large = (1.0f - e) / (1.0f + e);
    const ivec sign = (ivec)x & (ivec)splat(-0.0f);
    return choose(size < 0.55f, fma(x * square, p, x), (vec)((ivec)large | sign));
}

// The normal distribution's lower tail, erfc(x / sqrt(2)) / 2, for x >= 0: relative error below
// (4 + x^2 / 2) * 2^-23, where x^2 / 2 comes from rounding the exponent. With t = 1 / (1 + 0.35 x)
// it is e^(-x^2 / 2) * t * P(t), P fitted to 5.3e-8 for x <= 14.5; for larger x float32 can only
// hold zero.
static inline vec normal_tail(vec x) {
    const vec t = 1.0f / fma(x, splat(0.35f), splat(1.0f));
    vec p = splat(-0.029157863930f);
    p = fma(p, t, splat(0.144030824304f));
    p = fma(p, t, splat(-0.255838841200f));
    p = fma(p, t, splat(0.159319519997f));
    p = fma(p, t, splat(-0.023212248459f));
    p = fma(p, t, splat(0.105552464724f));
    p = fma(p, t, splat(0.119821295142f));
    p = fma(p, t, splat(0.139863520861f));
    p = fma(p, t, splat(0.139621302485f));
    return exp(x * x * -0.5f) * (t * p);
}

// float16 as bits.
static inline float from_f16(uint16_t h) {
#if defined(__F16C__)
    return _cvtsh_ss(h);
#elif defined(UNLADEN_NEON)
    return (float)__builtin_bit_cast(__fp16, h);
#else
    // As bits of a float, they are too small by a factor of 2^112, subnormals included.
    uint32_t bits = (uint32_t)(h & 0x7fff) << 13;
    float f;
    __builtin_memcpy(&f, &bits, sizeof f);
    f *= 0x1p112f;
    __builtin_memcpy(&bits, &f, sizeof f);
    if ((h & 0x7c00) == 0x7c00) bits |= 0x7f800000;
    bits |= (uint32_t)(h & 0x8000) << 16;
    __builtin_memcpy(&f, &bits, sizeof f);
    return f;
#endif
}

// The nearest float16, ties to even; infinity from 65520 on; NaN stays NaN.
static inline uint16_t to_f16(float f) {
#if defined(__F16C__)
    return _cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT);
#elif defined(UNLADEN_NEON)
    return __builtin_bit_cast(uint16_t, (__fp16)f);
#else
    uint32_t bits;
    __builtin_memcpy(&bits, &f, sizeof f);
    const uint32_t sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (bits >= 0x47800000) return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000) {
        // Below 2^-14 the step is 2^-24, the step of floats in [0.5, 1). So adding 0.5 rounds.
        __builtin_memcpy(&f, &bits, sizeof f);
        f += 0.5f;
        __builtin_memcpy(&bits, &f, sizeof f);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | (bits - 0x38000000) >> 13);
#endif
}

// Rounded as to_f16 does.
static inline void store_as_f16(uint16_t *p, vec v) {
#if defined(__AVX512F__)
    const __m256i h = _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT);
    __builtin_memcpy(p, &h, sizeof h);
#elif defined(__F16C__)
    const __m128i h = _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
    __builtin_memcpy(p, &h, sizeof h);
#elif defined(UNLADEN_NEON)
    const float16x4_t h = vcvt_f16_f32((float32x4_t)v);
    __builtin_memcpy(p, &h, sizeof h);
#else
    for (int i = 0; i < lanes; i++) p[i] = to_f16(v[i]);
#endif
}

// `lanes` float16 at p, which may be odd.
static inline vec load_f16(const void *p) {
#if defined(__AVX512F__)
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__F16C__)
    return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#elif defined(UNLADEN_NEON)
    return (vec)vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8((const uint8_t *)p)));
#else
    uint16_t a[4];
    __builtin_memcpy(a, p, sizeof a);
    return vec{from_f16(a[0]), from_f16(a[1]), from_f16(a[2]), from_f16(a[3])};
#endif
}

static inline vec load_first_f16(const void *p, int n) {
#if defined(__AVX512F__)
    return (vec)_mm512_cvtph_ps(_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), p));
#else
    uint16_t a[lanes] = {};
    __builtin_memcpy(a, p, (size_t)n * sizeof *a);
    return load_f16(a);
#endif
}

// `lanes` bfloat16 at p: the upper halves of float32.
static inline vec load_bf16(const uint8_t *p) {
#if defined(__AVX512F__)
    const __m256i high = _mm256_loadu_si256((const __m256i *)p);
    return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16);
#elif defined(__AVX2__)
    const __m128i high = _mm_loadu_si128((const __m128i *)p);
    return (vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32(high), 16);
#elif defined(UNLADEN_NEON)
    return (vec)vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16);
#else
    uint16_t a[4];
    __builtin_memcpy(a, p, sizeof a);
    return (vec)(ivec{a[0], a[1], a[2], a[3]} << 16);
#endif
}

// `lanes` int8 at p.
static inline vec load_i8(const int8_t *p) {
#if defined(__AVX512F__)
    return (vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
#elif defined(__AVX2__)
    return (vec)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
#elif defined(UNLADEN_NEON)
    int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    const int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(four));
    return (vec)vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
#else
    return vec{(float)p[0], (float)p[1], (float)p[2], (float)p[3]};
#endif
}

// t[i][j] becomes t[j][i]. Each of log2(lanes) steps swaps the off-diagonal halves of ever smaller
// squares.
template <int n, int... i>
static inline void transpose_step(vec *t, Seq<i...>) {
    for (int r = 0; r < lanes; r++) {
        if (r & n) continue;
        const vec a = t[r], b = t[r + n];
        t[r] = __builtin_shufflevector(a, b, (i & n ? i - n + lanes : i)...);
        t[r + n] = __builtin_shufflevector(a, b, (i & n ? i + lanes : i + n)...);
    }
}

template <int n = lanes / 2>
static inline void transpose(vec *t) {
    transpose_step<n>(t, LaneNumbers{});
    if constexpr (n > 1) transpose<n / 2>(t);
}

// 2 * lanes float16 as bits, in `corners` parts of 8.
typedef uint16_t hvec __attribute__((vector_size(lanes * 4)));
inline constexpr int corners = lanes / 4;

// 8 float16 of each of `corners` places.
static inline hvec load_corners(const uint16_t *const (&p)[corners]) {
#if defined(__AVX512F__)
    const __m256i low = _mm256_loadu2_m128i((const __m128i *)p[1], (const __m128i *)p[0]);
    const __m256i high = _mm256_loadu2_m128i((const __m128i *)p[3], (const __m128i *)p[2]);
    return (hvec)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
#elif defined(__AVX2__)
    return (hvec)_mm256_loadu2_m128i((const __m128i *)p[1], (const __m128i *)p[0]);
#else
    hvec v;
    __builtin_memcpy(&v, p[0], sizeof v);
    return v;
#endif
}

static inline void store_f16(uint16_t *p, hvec v) { __builtin_memcpy(p, &v, sizeof v); }

// t[i] has 8 float16 of each of the rows i, i + 8, i + 16 ...; then t[j] has the j-th float16 of
// all rows in order. In each of three steps row i is interleaved with row i + 4.
template <int... i>
static inline void transpose_f16(hvec *t, Seq<i...>) {
    constexpr int n = 2 * lanes;
    for (int round = 0; round < 3; round++) {
        hvec woven[8];
        for (int r = 0; r < 4; r++) {
            const hvec a = t[r], b = t[r + 4];
            woven[2 * r] = __builtin_shufflevector(a, b, (i / 8 * 8 + i % 8 / 2 + i % 2 * n)...);
            woven[2 * r + 1] =
                __builtin_shufflevector(a, b, (i / 8 * 8 + i % 8 / 2 + i % 2 * n + 4)...);
        }
        for (int r = 0; r < 8; r++) t[r] = woven[r];
    }
}

static inline void transpose_f16(hvec *t) { transpose_f16(t, Count<2 * lanes>::Type{}); }

}  // namespace unladen::cpu::UNLADEN_ISA
