// The few operations on bits that block formats need.
#pragma once

#include <cstdint>
#include <cstring>

#include "backends/cpu/csrc/isa/contract/level.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "blocks are read as little-endian");

namespace unladen::cpu::UNLADEN_ISA::bits {

// The T at p, which may be unaligned.
template <class T>
inline T load(const uint8_t *p) {
    T value;
    std::memcpy(&value, p, sizeof value);
    return value;
}

inline float float_of(uint32_t pattern) {
    float value;
    std::memcpy(&value, &pattern, sizeof value);
    return value;
}

inline float float_of_half(uint16_t half) {
#if defined(__F16C__)
    return _cvtsh_ss(half);
#elif defined(UNLADEN_NEON)
    return float(__builtin_bit_cast(__fp16, half));
#else
    const uint32_t sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest < 0x400) {  // zero or subnormal
        const float magnitude = float(int(rest)) * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    // The exponent's bias is 15 here and 127 there; 31, infinity and NaN, becomes 255.
    const uint32_t rebias = rest < 0x7c00 ? 127 - 15 : 255 - 31;
    return float_of(sign | ((rest << 13) + (rebias << 23)));
#endif
}

// The float16 at p.
inline float half(const uint8_t *p) { return float_of_half(load<uint16_t>(p)); }

inline constexpr uint64_t ones = 0x0101010101010101;  // a 1 in each of eight bytes

// Eight numbers, one in each byte: the eight bytes at p, shifted down and masked with `mask`.
inline uint64_t field(const uint8_t *p, int shift, uint8_t mask) {
    return load<uint64_t>(p) >> shift & mask * ones;
}

// The bits of b as eight bytes of 0 or 1.
inline uint64_t spread_bits(uint8_t b) {
    const uint64_t picked = b * ones & 0x8040201008040201;
    return (picked + 0x7f * ones) >> 7 & ones;
}

// y[i] = f(byte i of `packed`, signed). f takes a float or, for speed, a vector of floats. Written
// with intrinsics, because compilers make much slower code of a loop.
template <class F>
inline void each(float *y, uint64_t packed, F f) {
#if defined(__AVX2__)
    const __m128i bytes = _mm_cvtsi64_si128(int64_t(packed));
    _mm256_storeu_ps(y, f(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes))));
#elif defined(__x86_64__)
    const __m128i bytes = _mm_cvtsi64_si128(int64_t(packed));
    const __m128i words = _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
    const __m128i first = _mm_srai_epi32(_mm_unpacklo_epi16(words, words), 16);
    const __m128i second = _mm_srai_epi32(_mm_unpackhi_epi16(words, words), 16);
    _mm_storeu_ps(y, f(_mm_cvtepi32_ps(first)));
    _mm_storeu_ps(y + 4, f(_mm_cvtepi32_ps(second)));
#elif defined(UNLADEN_NEON)
    const int16x8_t words = vmovl_s8(vcreate_s8(packed));
    vst1q_f32(y, f(vcvtq_f32_s32(vmovl_s16(vget_low_s16(words)))));
    vst1q_f32(y + 4, f(vcvtq_f32_s32(vmovl_high_s16(words))));
#else
    int8_t q[8];
    std::memcpy(q, &packed, sizeof q);
    for (int i = 0; i < 8; ++i) y[i] = f(float(q[i]));
#endif
}

// y[i] = d * q[i].
template <int n>
inline void scale(float *y, float d, const uint8_t *q) {
    for (int i = 0; i < n; i += 8) {
        each(y + i, load<uint64_t>(q + i), [d](auto w) { return d * w; });
    }
}

// Looks up the low and the high nibbles of 16 bytes in a codebook of 16 numbers. Each result is an
// int8.
inline void look_up_nibbles(const uint8_t *p, const int8_t *codebook, uint8_t *low,
                            uint8_t *high) {
#if defined(__AVX2__)
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i *>(codebook));
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
    const __m128i mask = _mm_set1_epi8(15), upper = _mm_srli_epi16(codes, 4);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(low),
                     _mm_shuffle_epi8(values, _mm_and_si128(codes, mask)));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(high),
                     _mm_shuffle_epi8(values, _mm_and_si128(upper, mask)));
#elif defined(UNLADEN_NEON)
    const uint8x16_t values = vreinterpretq_u8_s8(vld1q_s8(codebook)), codes = vld1q_u8(p);
    vst1q_u8(low, vqtbl1q_u8(values, vandq_u8(codes, vdupq_n_u8(15))));
    vst1q_u8(high, vqtbl1q_u8(values, vshrq_n_u8(codes, 4)));
#else
    for (int i = 0; i < 16; ++i) {
        low[i] = uint8_t(codebook[p[i] & 15]);
        high[i] = uint8_t(codebook[p[i] >> 4]);
    }
#endif
}

}  // namespace unladen::cpu::UNLADEN_ISA::bits
