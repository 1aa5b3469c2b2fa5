// One register of float32 at each level, and the transposition that tiles of weights need.
#pragma once

#include <cstring>

#include "backends/cpu/csrc/isa/level.h"

namespace unladen::cpu::UNLADEN_ISA {

#if defined(__AVX512F__)

// r[i] lane j <-> r[j] lane i, of 32-bit lanes.
inline __attribute__((always_inline)) void transpose(__m512i r[16]) {
    __m512i t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

struct Vec {
    static constexpr int width = 16;
    __m512 v;
    static Vec zero() { return {_mm512_setzero_ps()}; }
    static Vec all(float x) { return {_mm512_set1_ps(x)}; }
    static Vec load(const float *p) { return {_mm512_loadu_ps(p)}; }
    static Vec load_f16(const uint8_t *p) {
        return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)))};
    }
    static Vec load_bf16(const uint8_t *p) {
        const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
        return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16))};
    }
    void store(float *p) const { _mm512_storeu_ps(p, v); }
    Vec times_plus(Vec b, Vec c) const { return {_mm512_fmadd_ps(v, b.v, c.v)}; }
    Vec plus(Vec b) const { return {_mm512_add_ps(v, b.v)}; }
    float sum() const { return _mm512_reduce_add_ps(v); }
};

// to[k * 16 + r] = from[r * stride + k] for k < 16.
inline void transpose_tile(float *to, const float *from, int stride) {
    __m512i r[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) r[i] = _mm512_loadu_si512(from + i * stride);
    transpose(r);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + 16 * i, r[i]);
}

#elif defined(__AVX2__)

struct Vec {
    static constexpr int width = 8;
    __m256 v;
    static Vec zero() { return {_mm256_setzero_ps()}; }
    static Vec all(float x) { return {_mm256_set1_ps(x)}; }
    static Vec load(const float *p) { return {_mm256_loadu_ps(p)}; }
    static Vec load_f16(const uint8_t *p) {
        return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)))};
    }
    static Vec load_bf16(const uint8_t *p) {
        const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
        return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(high), 16))};
    }
    void store(float *p) const { _mm256_storeu_ps(p, v); }
    Vec times_plus(Vec b, Vec c) const { return {_mm256_fmadd_ps(v, b.v, c.v)}; }
    Vec plus(Vec b) const { return {_mm256_add_ps(v, b.v)}; }
    float sum() const {
        __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
        s = _mm_add_ps(s, _mm_movehl_ps(s, s));
        return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
    }
};

// to[k * 8 + r] = from[r * stride + k] for k < 8.
inline void transpose_tile(float *to, const float *from, int stride) {
    __m256 r[8], t[8];
    // Rows i and i + 4 side by side, so that the rest stays within 128 bits.
    for (int h = 0; h < 2; ++h) {
        for (int i = 0; i < 4; ++i) {
            r[i] = _mm256_insertf128_ps(
                _mm256_castps128_ps256(_mm_loadu_ps(from + i * stride + 4 * h)),
                _mm_loadu_ps(from + (i + 4) * stride + 4 * h), 1);
        }
        for (int i = 0; i < 2; ++i) {
            t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
            t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
        }
        for (int i = 0; i < 2; ++i) {
            _mm256_storeu_ps(to + 8 * (4 * h + 2 * i), _mm256_shuffle_ps(t[i], t[i + 2], 0x44));
            _mm256_storeu_ps(to + 8 * (4 * h + 2 * i + 1), _mm256_shuffle_ps(t[i], t[i + 2], 0xee));
        }
    }
}

#elif defined(UNLADEN_NEON)

struct Vec {
    static constexpr int width = 4;
    float32x4_t v;
    static Vec zero() { return {vdupq_n_f32(0.0f)}; }
    static Vec all(float x) { return {vdupq_n_f32(x)}; }
    static Vec load(const float *p) { return {vld1q_f32(p)}; }
    static Vec load_f16(const uint8_t *p) {
        return {vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)))};
    }
    static Vec load_bf16(const uint8_t *p) {
        return {vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16))};
    }
    void store(float *p) const { vst1q_f32(p, v); }
    Vec times_plus(Vec b, Vec c) const { return {vfmaq_f32(c.v, v, b.v)}; }
    Vec plus(Vec b) const { return {vaddq_f32(v, b.v)}; }
    float sum() const { return vaddvq_f32(v); }
};

// to[k * 4 + r] = from[r * stride + k] for k < 4.
inline void transpose_tile(float *to, const float *from, int stride) {
    const float32x4_t a = vld1q_f32(from), b = vld1q_f32(from + stride);
    const float32x4_t c = vld1q_f32(from + 2 * stride), d = vld1q_f32(from + 3 * stride);
    const float32x4_t ac = vzip1q_f32(a, c), bd = vzip1q_f32(b, d);
    const float32x4_t ac2 = vzip2q_f32(a, c), bd2 = vzip2q_f32(b, d);
    vst1q_f32(to, vzip1q_f32(ac, bd));
    vst1q_f32(to + 4, vzip2q_f32(ac, bd));
    vst1q_f32(to + 8, vzip1q_f32(ac2, bd2));
    vst1q_f32(to + 12, vzip2q_f32(ac2, bd2));
}

#else

struct Vec {
    static constexpr int width = 4;
    float v[4];
    static Vec zero() { return all(0.0f); }
    static Vec all(float x) { return {{x, x, x, x}}; }
    static Vec load(const float *p) { return {{p[0], p[1], p[2], p[3]}}; }
    void store(float *p) const { std::memcpy(p, v, sizeof v); }
    Vec times_plus(Vec b, Vec c) const {
        Vec r;
        for (int i = 0; i < 4; ++i) r.v[i] = v[i] * b.v[i] + c.v[i];
        return r;
    }
    Vec plus(Vec b) const {
        Vec r;
        for (int i = 0; i < 4; ++i) r.v[i] = v[i] + b.v[i];
        return r;
    }
    float sum() const { return (v[0] + v[2]) + (v[1] + v[3]); }
};

// to[k * 4 + r] = from[r * stride + k] for k < 4.
inline void transpose_tile(float *to, const float *from, int stride) {
    for (int k = 0; k < 4; ++k) {
        for (int r = 0; r < 4; ++r) to[4 * k + r] = from[r * stride + k];
    }
}

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
