// Transposes tiles of weights: one register of each of `lanes` rows.
#pragma once

#include "backends/cpu/csrc/isa/simd/float.h"

namespace unladen::cpu::UNLADEN_ISA {

#if defined(__AVX512F__)

// Swaps lane j of r[i] with lane i of r[j], for 32-bit lanes.
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

// to[k * 4 + r] = from[r * stride + k] for k < 4.
inline void transpose_tile(float *to, const float *from, int stride) {
    for (int k = 0; k < 4; ++k) {
        for (int r = 0; r < 4; ++r) to[4 * k + r] = from[r * stride + k];
    }
}

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
