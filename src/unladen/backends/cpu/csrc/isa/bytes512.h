// Operations on the bytes of AVX-512 registers: one instruction each of VBMI or GFNI or, at the
// level without these, a few others.
#pragma once

#include "backends/cpu/csrc/isa/linear_act.h"

namespace unladen::cpu::UNLADEN_ISA {

UNLADEN_INLINE __m128i load128(const void *p) {
    return _mm_loadu_si128(static_cast<const __m128i *>(p));
}
UNLADEN_INLINE __m256i load256(const void *p) {
    return _mm256_loadu_si256(static_cast<const __m256i *>(p));
}
UNLADEN_INLINE __m512i load512(const void *p) { return _mm512_loadu_si512(p); }
UNLADEN_INLINE __m512i all_bytes(int b) { return _mm512_set1_epi8(char(b)); }

#if defined(__GFNI__)

// The matrix of vgf2p8affineqb that takes n bits from bit `from` of each byte to bit `to`: the row
// that makes bit i of the result is byte 7 - i.
constexpr uint64_t bit_field(int from, int to, int n) {
    uint64_t matrix = 0;
    for (int i = 0; i < n; ++i) matrix |= uint64_t(1) << (from + i) << 8 * (7 - (to + i));
    return matrix;
}

// n bits from bit `from` of each byte, at bit `to`.
UNLADEN_INLINE __m512i field(__m512i v, int from, int n, int to) {
    const uint64_t matrix = bit_field(0, to, n) << from;
    return _mm512_gf2p8affine_epi64_epi8(v, _mm512_set1_epi64(int64_t(matrix)), 0);
}

// Such fields, with a first bit for each of the four 128-bit lanes.
UNLADEN_INLINE __m512i fields(__m512i v, int to, int n, int from0, int from1, int from2,
                              int from3) {
    const int64_t a = int64_t(bit_field(from0, to, n)), b = int64_t(bit_field(from1, to, n)),
                  c = int64_t(bit_field(from2, to, n)), d = int64_t(bit_field(from3, to, n));
    return _mm512_gf2p8affine_epi64_epi8(v, _mm512_setr_epi64(a, a, b, b, c, c, d, d), 0);
}

// Seven bits and, in place of the highest, one that makes the number of set ones even.
UNLADEN_INLINE __m256i with_eighth(__m256i bytes) {
    constexpr uint64_t seven = bit_field(0, 0, 7), parity = 0x7f;
    return _mm256_gf2p8affine_epi64_epi8(bytes, _mm256_set1_epi64x(int64_t(seven | parity)), 0);
}

#else

UNLADEN_INLINE __m512i field(__m512i v, int from, int n, int to) {
    if (from > to) v = _mm512_srli_epi16(v, unsigned(from - to));
    if (from < to) v = _mm512_slli_epi16(v, unsigned(to - from));
    return _mm512_and_si512(v, all_bytes(((1 << n) - 1) << to));
}

UNLADEN_INLINE __m512i fields(__m512i v, int to, int n, int from0, int from1, int from2,
                              int from3) {
    if (from0 == from1 && from0 == from2 && from0 == from3) return field(v, from0, n, to);
    // Rotated by what takes bits to their place: what comes from other bytes is masked.
    const int a = (from0 - to) & 31, b = (from1 - to) & 31, c = (from2 - to) & 31,
              d = (from3 - to) & 31;
    v = _mm512_rorv_epi32(v, _mm512_setr_epi32(a, a, a, a, b, b, b, b, c, c, c, c, d, d, d, d));
    return _mm512_and_si512(v, all_bytes(((1 << n) - 1) << to));
}

UNLADEN_INLINE __m256i with_eighth(__m256i bytes) {
    // Whether nibbles have an odd number of set bits, in the highest bit.
    const __m256i odd = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0));
    const __m256i nibble = _mm256_set1_epi8(15), seven = _mm256_set1_epi8(0x7f);
    bytes = _mm256_and_si256(bytes, seven);
    const __m256i low = _mm256_shuffle_epi8(odd, _mm256_and_si256(bytes, nibble));
    const __m256i high =
        _mm256_shuffle_epi8(odd, _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble));
    return _mm256_or_si256(bytes, _mm256_xor_si256(low, high));
}

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
