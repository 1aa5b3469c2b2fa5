// The integers inside blocks, for the levels below AVX-512. Layouts: the headers in quants/.
#pragma once

#include "backends/cpu/csrc/isa/linear_regs.h"
#include "backends/cpu/csrc/isa/linear_scales.h"

namespace unladen::cpu::UNLADEN_ISA {

// Codes<T>: a block of 32 at b is w[i] = d(b) * (codes(b)[i] - bias) + m(b).
// One of 256, constructed from its bytes, is
// w[i] = d() * scales()[i / 16] * (codes(i / 32)[i % 32] - bias) - dmin() * mins()[i / 16].
// Codes are in 0 ... max_code, or signed; `sub` weights share a scale.
template <class T>
struct Codes;

template <>
struct Codes<Q8_0> {
    static constexpr bool is_signed = true;
    static constexpr int bias = 0, max_code = 127;
    static constexpr bool has_min = false;
    static Bytes32 codes(const uint8_t *b) { return Bytes32::load(b + 2); }
    static float d(const uint8_t *b) { return bits::half(b); }
};

// Codes<T> = W of a block of 32 with 16 bytes of nibbles at nibbles_at, the first 16 codes in the
// low ones. W::decode() makes codes of these; with has_fifth a bit more of each lies in the four
// bytes before.
template <class W, int at, bool fifth = false>
struct NibbleCodes {
    static constexpr int nibbles_at = at;
    static constexpr bool has_fifth = fifth;
    static Bytes32 decode(Bytes32 nibbles) { return nibbles; }
    static Bytes32 fifths(uint32_t set) { return Bytes32::where(set).field(0, 16); }
    static Bytes32 codes(const uint8_t *b) {
        const Bytes32 q = W::decode(Bytes32::nibbles(b + at));
        if constexpr (!fifth) return q;
        return q.plus(fifths(bits::load<uint32_t>(b + at - 4)));
    }
};

template <>
struct Codes<Q4_0> : NibbleCodes<Codes<Q4_0>, 2> {
    static constexpr bool is_signed = false;
    static constexpr int bias = 8, max_code = 15;
    static constexpr bool has_min = false;
    static float d(const uint8_t *b) { return bits::half(b); }
};

template <>
struct Codes<Q4_1> : NibbleCodes<Codes<Q4_1>, 4> {
    static constexpr bool is_signed = false;
    static constexpr int bias = 0, max_code = 15;
    static constexpr bool has_min = true;
    static float d(const uint8_t *b) { return bits::half(b); }
    static float m(const uint8_t *b) { return bits::half(b + 2); }
};

template <>
struct Codes<Q5_0> : NibbleCodes<Codes<Q5_0>, 6, true> {
    static constexpr bool is_signed = false;
    static constexpr int bias = 16, max_code = 31;
    static constexpr bool has_min = false;
    static float d(const uint8_t *b) { return bits::half(b); }
};

template <>
struct Codes<Q5_1> : NibbleCodes<Codes<Q5_1>, 8, true> {
    static constexpr bool is_signed = false;
    static constexpr int bias = 0, max_code = 31;
    static constexpr bool has_min = true;
    static float d(const uint8_t *b) { return bits::half(b); }
    static float m(const uint8_t *b) { return bits::half(b + 2); }
};

template <>
struct Codes<IQ4_NL> : NibbleCodes<Codes<IQ4_NL>, 2> {
    static constexpr bool is_signed = true;
    static constexpr int bias = 0, max_code = 127;
    static constexpr bool has_min = false;
    static Bytes32 decode(Bytes32 nibbles) { return nibbles.look_up(quants::kvalues_iq4nl); }
    static float d(const uint8_t *b) { return bits::half(b); }
};

template <>
struct Codes<MXFP4> : NibbleCodes<Codes<MXFP4>, 1> {
    static constexpr bool is_signed = false;
    static constexpr int bias = 12, max_code = 24;
    static constexpr bool has_min = false;
    static Bytes32 decode(Bytes32 nibbles) {
        return nibbles.look_up(quants::kvalues_mxfp4).less(-bias);
    }
    static float d(const uint8_t *b) {
        const uint32_t e = b[0];  // d = 2^(e - 128); the two smallest are subnormal
        return bits::float_of(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    }
};

template <class T>
constexpr bool has_nibbles = requires { Codes<T>::nibbles_at; };

// Codes of a block of 32 as numbers around zero.
template <class T>
UNLADEN_INLINE Bytes32 signed_codes(const uint8_t *b) {
    const Bytes32 q = Codes<T>::codes(b);
    return Codes<T>::bias ? q.less(Codes<T>::bias) : q;
}

// Q4_K and Q5_K: d, dmin and 12 bytes of eight 6-bit scales and minimums.
struct KHeader {
    static constexpr int bias = 0, sub = 32;
    static constexpr bool has_min = true, is_signed = false;
    static constexpr uint32_t six = 0x3f3f3f3f, low = 0x0f0f0f0f, high = 0x30303030;
    const uint8_t *b;
    uint32_t p, q, r;
    explicit KHeader(const uint8_t *block)
        : b(block), p(bits::load<uint32_t>(b + 4)), q(bits::load<uint32_t>(b + 8)),
          r(bits::load<uint32_t>(b + 12)) {}
    float d() const { return bits::half(b); }
    float dmin() const { return bits::half(b + 2); }
    Words16 scales() const {
        return Words16::twice((p & six) | uint64_t((r & low) | (p >> 2 & high)) << 32);
    }
    Words16 mins() const {
        return Words16::twice((q & six) | uint64_t((r >> 4 & low) | (q >> 2 & high)) << 32);
    }
};

template <>
struct Codes<Q4_K> : KHeader {
    static constexpr int max_code = 15;
    using KHeader::KHeader;
    Bytes32 codes(int s) const {
        return Bytes32::load(b + 16 + s / 2 * 32).field(s % 2 * 4, 15);
    }
};

template <>
struct Codes<Q5_K> : KHeader {
    static constexpr int max_code = 31;
    using KHeader::KHeader;
    Bytes32 codes(int s) const {
        const Bytes32 fifth = Bytes32::load(b + 16).field(s - 4, 16);
        return Bytes32::load(b + 48 + s / 2 * 32).field(s % 2 * 4, 15).plus(fifth);
    }
};

// Two bits of each weight, 128 weights in 32 bytes, at bit `to`.
inline Bytes32 two_bits(const uint8_t *p, int s, int to = 0) {
    return Bytes32::load(p + s / 4 * 32).field(s % 4 * 2 - to, 3 << to);
}

template <>
struct Codes<Q6_K> {
    static constexpr int bias = 32, max_code = 63, sub = 16;
    static constexpr bool has_min = false, is_signed = false;
    const uint8_t *b;
    explicit Codes(const uint8_t *block) : b(block) {}
    float d() const { return bits::half(b + 208); }
    Words16 scales() const { return Words16::of_signed(b + 192); }
    Bytes32 codes(int s) const {
        const Bytes32 low = Bytes32::load(b + s / 4 * 64 + s % 2 * 32).field(s % 4 / 2 * 4, 15);
        return low.plus(two_bits(b + 128, s, 4));
    }
};

template <>
struct Codes<Q3_K> {
    static constexpr int bias = 4, max_code = 7, sub = 16;
    static constexpr bool has_min = false, is_signed = false;
    const uint8_t *b;
    explicit Codes(const uint8_t *block) : b(block) {}
    float d() const { return bits::half(b + 108); }
    Words16 scales() const {
        const Q3KScales packed(b + 96);
        return Words16::of_signed(packed.first, packed.second).less(32);
    }
    Bytes32 codes(int s) const {
        return two_bits(b + 32, s).plus(Bytes32::load(b).field(s - 2, 4));
    }
};

template <>
struct Codes<Q2_K> {
    static constexpr int bias = 0, max_code = 3, sub = 16;
    static constexpr bool has_min = true, is_signed = false;
    const uint8_t *b;
    explicit Codes(const uint8_t *block) : b(block) {}
    float d() const { return bits::half(b + 80); }
    float dmin() const { return bits::half(b + 82); }
    Words16 scales() const { return Words16::of_signed(b).field(0, 15); }
    Words16 mins() const { return Words16::of_signed(b).field(4, 15); }
    Bytes32 codes(int s) const { return two_bits(b + 16, s); }
};

template <>
struct Codes<IQ4_XS> {
    static constexpr int bias = 0, max_code = 127, sub = 32;
    static constexpr bool has_min = false, is_signed = true;
    const uint8_t *b;
    explicit Codes(const uint8_t *block) : b(block) {}
    float d() const { return bits::half(b); }
    Words16 scales() const {
        return Words16::twice(iq4_xs_scales(b)).less(32);
    }
    static constexpr int nibbles_at = 8;
    static constexpr bool has_fifth = false;
    static Bytes32 decode(Bytes32 nibbles) { return nibbles.look_up(quants::kvalues_iq4nl); }
    Bytes32 codes(int s) const { return decode(Bytes32::nibbles(b + nibbles_at + 16 * s)); }
};

}  // namespace unladen::cpu::UNLADEN_ISA
