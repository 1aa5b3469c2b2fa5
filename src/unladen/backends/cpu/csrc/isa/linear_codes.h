// The integers inside blocks, for the integer dot products of the levels below AVX-512.
//
// A block of 32 is w[i] = d * q[i] + m, a block of 256 w[i] = d * scale[i / 16] * (q[i] - bias) -
// dmin * min[i / 16]. Layouts: the headers in quants/.
#pragma once

#include "backends/cpu/csrc/quants/all.h"

namespace unladen::cpu::UNLADEN_ISA {

struct Codes32 {
    alignas(32) int8_t q[32];
    float d, m = 0.0f;
};

struct Codes256 {
    alignas(32) uint8_t q[256];
    alignas(32) int16_t scale[16];
    alignas(32) int16_t min[16];
    float d, dmin = 0.0f;
};

// Nibbles of 16 bytes, the low ones first, minus `bias`.
inline void nibbles(int8_t *q, const uint8_t *p, int bias) {
    for (int i = 0; i < 16; ++i) {
        q[i] = int8_t((p[i] & 15) - bias);
        q[i + 16] = int8_t((p[i] >> 4) - bias);
    }
}

// Adds a fifth bit of weight 16, bit i of the uint32 at p to q[i].
inline void add_fifth(int8_t *q, const uint8_t *p) {
    const uint32_t fifth = bits::load<uint32_t>(p);
    for (int i = 0; i < 32; ++i) q[i] = int8_t(q[i] + ((fifth >> i & 1) << 4));
}

inline void codes_of(Codes32 &c, const uint8_t *b, Q8_0) {
    c.d = bits::half(b);
    std::memcpy(c.q, b + 2, 32);
}

inline void codes_of(Codes32 &c, const uint8_t *b, Q4_0) {
    c.d = bits::half(b);
    nibbles(c.q, b + 2, 8);
}

inline void codes_of(Codes32 &c, const uint8_t *b, Q4_1) {
    c.d = bits::half(b);
    c.m = bits::half(b + 2);
    nibbles(c.q, b + 4, 0);
}

inline void codes_of(Codes32 &c, const uint8_t *b, Q5_0) {
    c.d = bits::half(b);
    nibbles(c.q, b + 6, 16);
    add_fifth(c.q, b + 2);
}

inline void codes_of(Codes32 &c, const uint8_t *b, Q5_1) {
    c.d = bits::half(b);
    c.m = bits::half(b + 2);
    nibbles(c.q, b + 8, 0);
    add_fifth(c.q, b + 4);
}

inline void look_up(int8_t *q, const uint8_t *p, const int8_t *codebook) {
    for (int i = 0; i < 16; ++i) {
        q[i] = codebook[p[i] & 15];
        q[i + 16] = codebook[p[i] >> 4];
    }
}

inline void codes_of(Codes32 &c, const uint8_t *b, IQ4_NL) {
    c.d = bits::half(b);
    look_up(c.q, b + 2, quants::kvalues_iq4nl);
}

// 2^(e - 128); the two smallest are subnormal.
inline float mxfp4_scale(uint32_t e) {
    return bits::float_of(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

inline void codes_of(Codes32 &c, const uint8_t *b, MXFP4) {
    c.d = mxfp4_scale(b[0]);
    look_up(c.q, b + 1, quants::kvalues_mxfp4);
}

// Q4_K and Q5_K: d, dmin and the 12 bytes of scales.
inline void k_header(Codes256 &c, const uint8_t *b) {
    c.d = bits::half(b);
    c.dmin = bits::half(b + 2);
    for (int s = 0; s < 16; ++s) {
        c.scale[s] = int16_t(bits::k_scale(b + 4, s / 2));
        c.min[s] = int16_t(bits::k_min(b + 4, s / 2));
    }
}

inline void codes_of(Codes256 &c, const uint8_t *b, Q4_K) {
    k_header(c, b);
    for (int j = 0; j < 4; ++j) {
        for (int i = 0; i < 32; ++i) {
            const uint8_t two = b[16 + 32 * j + i];
            c.q[64 * j + i] = two & 15;
            c.q[64 * j + 32 + i] = two >> 4;
        }
    }
}

inline void codes_of(Codes256 &c, const uint8_t *b, Q5_K) {
    k_header(c, b);
    for (int j = 0; j < 4; ++j) {
        for (int i = 0; i < 32; ++i) {
            const uint8_t two = b[48 + 32 * j + i], fifth = uint8_t(b[16 + i] >> 2 * j);
            c.q[64 * j + i] = uint8_t((two & 15) | (fifth & 1) << 4);
            c.q[64 * j + 32 + i] = uint8_t(two >> 4 | (fifth & 2) << 3);
        }
    }
}

inline void codes_of(Codes256 &c, const uint8_t *b, Q6_K) {
    c.d = bits::half(b + 208);
    for (int s = 0; s < 16; ++s) c.scale[s] = int8_t(b[192 + s]);
    for (int half = 0; half < 2; ++half) {
        uint8_t *q = c.q + 128 * half;
        const uint8_t *low = b + 64 * half, *high = b + 128 + 32 * half;
        for (int i = 0; i < 32; ++i) {
            q[i] = uint8_t((low[i] & 15) | (high[i] & 3) << 4);
            q[i + 32] = uint8_t((low[i + 32] & 15) | (high[i] >> 2 & 3) << 4);
            q[i + 64] = uint8_t(low[i] >> 4 | (high[i] >> 4 & 3) << 4);
            q[i + 96] = uint8_t(low[i + 32] >> 4 | high[i] >> 6 << 4);
        }
    }
}

// Scales of Q3_K: low four bits in the nibbles of eight bytes, then the high two in four.
inline void q3_k_scales(int16_t *scale, const uint8_t *p) {
    for (int s = 0; s < 16; ++s) {
        const int low = p[s % 8] >> s / 8 * 4 & 15, high = p[8 + s % 4] >> s / 4 * 2 & 3;
        scale[s] = int16_t((low | high << 4) - 32);
    }
}

inline void codes_of(Codes256 &c, const uint8_t *b, Q3_K) {
    c.d = bits::half(b + 108);
    q3_k_scales(c.scale, b + 96);
    for (int j = 0; j < 8; ++j) {
        const uint8_t *low = b + 32 + j / 4 * 32;
        for (int i = 0; i < 32; ++i) {
            c.q[32 * j + i] = uint8_t((low[i] >> j % 4 * 2 & 3) | (b[i] >> j & 1) << 2);
        }
    }
}

inline void codes_of(Codes256 &c, const uint8_t *b, Q2_K) {
    c.d = bits::half(b + 80);
    c.dmin = bits::half(b + 82);
    for (int s = 0; s < 16; ++s) {
        c.scale[s] = b[s] & 15;
        c.min[s] = b[s] >> 4;
    }
    for (int j = 0; j < 8; ++j) {
        const uint8_t *low = b + 16 + j / 4 * 32;
        for (int i = 0; i < 32; ++i) c.q[32 * j + i] = low[i] >> j % 4 * 2 & 3;
    }
}

// What q is too large by, a power of two, as its logarithm; 0: nothing.
template <class T>
constexpr int bias_log2 = 0;
template <>
constexpr int bias_log2<Q6_K> = 5;
template <>
constexpr int bias_log2<Q3_K> = 2;
template <class T>
constexpr bool has_min = false;
template <>
constexpr bool has_min<Q4_K> = true;
template <>
constexpr bool has_min<Q5_K> = true;
template <>
constexpr bool has_min<Q2_K> = true;
template <>
constexpr bool has_min<Q4_1> = true;
template <>
constexpr bool has_min<Q5_1> = true;

}  // namespace unladen::cpu::UNLADEN_ISA
