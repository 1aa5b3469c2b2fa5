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

inline void put(void *to, uint64_t eight) { std::memcpy(to, &eight, sizeof eight); }

// Eight bytes below 128, each minus `bias`; the 128s keep borrows within their bytes.
inline uint64_t less(uint64_t eight, uint8_t bias) {
    const uint64_t sign = 0x80 * bits::ones;
    return ((eight | sign) - bias * bits::ones) ^ sign;
}

// Nibbles of 16 bytes, the low ones first, minus `bias`; `fifth`: the bits above them.
inline void nibbles(int8_t *__restrict q, const uint8_t *__restrict p, uint8_t bias,
                    uint32_t fifth = 0) {
    for (int i = 0; i < 4; ++i) {
        const uint64_t top = bits::spread_bits(uint8_t(fifth >> 8 * i)) << 4;
        put(q + 8 * i, less(bits::field(p + i % 2 * 8, i / 2 * 4, 15) | top, bias));
    }
}

inline void look_up(int8_t *q, const uint8_t *p, const int8_t *codebook) {
    uint8_t *bytes = reinterpret_cast<uint8_t *>(q);
    bits::look_up_nibbles(p, codebook, bytes, bytes + 16);
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
    nibbles(c.q, b + 6, 16, bits::load<uint32_t>(b + 2));
}

inline void codes_of(Codes32 &c, const uint8_t *b, Q5_1) {
    c.d = bits::half(b);
    c.m = bits::half(b + 2);
    nibbles(c.q, b + 8, 0, bits::load<uint32_t>(b + 4));
}

inline void codes_of(Codes32 &c, const uint8_t *b, IQ4_NL) {
    c.d = bits::half(b);
    look_up(c.q, b + 2, quants::kvalues_iq4nl);
}

inline void codes_of(Codes32 &c, const uint8_t *b, MXFP4) {
    const uint32_t e = b[0];  // d = 2^(e - 128); the two smallest are subnormal
    c.d = bits::float_of(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    look_up(c.q, b + 1, quants::kvalues_mxfp4);
}

// Eight bytes as words, each twice.
inline void put_twice(int16_t *to, uint64_t bytes) {
    for (int s = 0; s < 16; ++s) to[s] = int16_t(bytes >> 8 * (s / 2) & 255);
}

// Q4_K and Q5_K: d, dmin and the 12 bytes of scales and minimums.
inline void k_header(Codes256 &c, const uint8_t *b) {
    c.d = bits::half(b);
    c.dmin = bits::half(b + 2);
    const uint32_t low = 0x0f0f0f0f, high = 0x30303030;
    const uint32_t p = bits::load<uint32_t>(b + 4), q = bits::load<uint32_t>(b + 8),
                   r = bits::load<uint32_t>(b + 12);
    put_twice(c.scale, (p & 0x3f3f3f3f) | uint64_t((r & low) | (p >> 2 & high)) << 32);
    put_twice(c.min, (q & 0x3f3f3f3f) | uint64_t((r >> 4 & low) | (q >> 2 & high)) << 32);
}

inline void codes_of(Codes256 &c, const uint8_t *b, Q4_K) {
    k_header(c, b);
    for (int s = 0; s < 8; ++s) {
        for (int i = 0; i < 32; i += 8) {
            put(c.q + 32 * s + i, bits::field(b + 16 + s / 2 * 32 + i, s % 2 * 4, 15));
        }
    }
}

inline void codes_of(Codes256 &c, const uint8_t *b, Q5_K) {
    k_header(c, b);
    for (int s = 0; s < 8; ++s) {
        for (int i = 0; i < 32; i += 8) {
            const uint64_t low = bits::field(b + 48 + s / 2 * 32 + i, s % 2 * 4, 15);
            put(c.q + 32 * s + i, low | bits::field(b + 16 + i, s, 1) << 4);
        }
    }
}

inline void codes_of(Codes256 &c, const uint8_t *b, Q6_K) {
    c.d = bits::half(b + 208);
    for (int s = 0; s < 16; ++s) c.scale[s] = int8_t(b[192 + s]);
    for (int s = 0; s < 8; ++s) {
        const uint8_t *low = b + s / 4 * 64 + s % 2 * 32, *high = b + 128 + s / 4 * 32;
        for (int i = 0; i < 32; i += 8) {
            put(c.q + 32 * s + i, bits::field(low + i, s % 4 / 2 * 4, 15) |
                                      bits::field(high + i, s % 4 * 2, 3) << 4);
        }
    }
}

inline void codes_of(Codes256 &c, const uint8_t *b, Q3_K) {
    c.d = bits::half(b + 108);
    const uint8_t *p = b + 96;  // low four bits in the nibbles of eight bytes, then the high two
    for (int s = 0; s < 16; ++s) {
        const int low = p[s % 8] >> s / 8 * 4 & 15, high = p[8 + s % 4] >> s / 4 * 2 & 3;
        c.scale[s] = int16_t((low | high << 4) - 32);
    }
    for (int s = 0; s < 8; ++s) {
        for (int i = 0; i < 32; i += 8) {
            put(c.q + 32 * s + i, bits::field(b + 32 + s / 4 * 32 + i, s % 4 * 2, 3) |
                                      bits::field(b + i, s, 1) << 2);
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
    for (int s = 0; s < 8; ++s) {
        for (int i = 0; i < 32; i += 8) {
            put(c.q + 32 * s + i, bits::field(b + 16 + s / 4 * 32 + i, s % 4 * 2, 3));
        }
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
