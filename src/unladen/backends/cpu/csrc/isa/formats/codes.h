// The integers inside blocks, for the levels below AVX-512.
#pragma once

#include "backends/cpu/csrc/isa/simd/int.h"

namespace unladen::cpu::UNLADEN_ISA {

// Codes<T>: a block of 32 at b is w[i] = d(b) * (codes(b)[i] - bias) + m(b). A block of 64 or 128
// has codes(b, i) for weights 32 i and on, and no m(b). One of 256, constructed from its bytes, is
// w[i] = d() * scales()[i / 16] * (codes(i / 32)[i % 32] - bias) - dmin() * mins()[i / 16]. Codes
// are in 0 ... max_code, or signed; `sub` weights share a scale.
template <class T>
struct Codes;

// Multiplies one row of T by a few columns. For formats for which a level has a faster kernel than
// products/rows.h with Codes<T>.
template <class T>
struct RowKernel;

// Codes<T> = W for a block of 32 with 16 bytes of nibbles at nibbles_at; the low nibbles are the
// first 16 codes. W::decode() turns nibbles into codes. With has_fifth the four bytes before have a
// fifth bit of each code.
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

template <class T>
constexpr bool has_nibbles = requires { Codes<T>::nibbles_at; };

// Codes number 32 i and on of a block of 32, 64 or 128.
template <class T>
UNLADEN_INLINE Bytes32 codes_of(const uint8_t *b, int i) {
    if constexpr (T::block_size == 32)
        return Codes<T>::codes(b);
    else
        return Codes<T>::codes(b, i);
}
// The same codes without their bias, so as signed numbers.
template <class T>
UNLADEN_INLINE Bytes32 signed_codes(const uint8_t *b, int i) {
    const Bytes32 q = codes_of<T>(b, i);
    return Codes<T>::bias ? q.less(Codes<T>::bias) : q;
}

// Codes of two bits, 128 of them in 32 bytes, placed at bit `to`.
inline Bytes32 two_bits(const uint8_t *p, int s, int to = 0) {
    return Bytes32::load(p + s / 4 * 32).field(s % 4 * 2 - to, 3 << to);
}

}  // namespace unladen::cpu::UNLADEN_ISA
