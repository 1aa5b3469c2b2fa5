// The integers inside blocks as AVX-512 registers: 64 unsigned codes, the first operand of
// vpdpbusd, in the lane orders of linear_act.h. Layouts of blocks: the headers in quants/.
#pragma once

#include "backends/cpu/csrc/isa/linear_act.h"
#include "backends/cpu/csrc/quants/all.h"

namespace unladen::cpu::UNLADEN_ISA {

// The matrix of vgf2p8affineqb that takes n bits from bit `from` of each byte to bit `to`: the row
// that makes bit i of the result is byte 7 - i.
constexpr uint64_t bit_field(int from, int to, int n) {
    uint64_t matrix = 0;
    for (int i = 0; i < n; ++i) matrix |= uint64_t(1) << (from + i) << 8 * (7 - (to + i));
    return matrix;
}

// Such fields, with a first bit for each of the four 128-bit lanes.
UNLADEN_INLINE __m512i fields(__m512i v, int to, int n, int from0, int from1, int from2,
                              int from3) {
    const int64_t a = int64_t(bit_field(from0, to, n)), b = int64_t(bit_field(from1, to, n)),
                  c = int64_t(bit_field(from2, to, n)), d = int64_t(bit_field(from3, to, n));
    return _mm512_gf2p8affine_epi64_epi8(v, _mm512_setr_epi64(a, a, b, b, c, c, d, d), 0);
}

UNLADEN_INLINE __m128i load128(const void *p) {
    return _mm_loadu_si128(static_cast<const __m128i *>(p));
}
UNLADEN_INLINE __m256i load256(const void *p) {
    return _mm256_loadu_si256(static_cast<const __m256i *>(p));
}

UNLADEN_INLINE __m512i load512(const void *p) { return _mm512_loadu_si512(p); }
UNLADEN_INLINE __m512i all_bytes(int b) { return _mm512_set1_epi8(char(b)); }
UNLADEN_INLINE __m512i broadcast4(const void *p) {
    return _mm512_set1_epi32(bits::load<int32_t>(static_cast<const uint8_t *>(p)));
}

// 16 bytes in each lane.
UNLADEN_INLINE __m512i lanes(const uint8_t *p) { return _mm512_broadcast_i32x4(load128(p)); }
UNLADEN_INLINE __m512i lanes(const uint8_t *p0, const uint8_t *p1, const uint8_t *p2,
                             const uint8_t *p3) {
    const __m512i first = _mm512_mask_broadcast_i32x4(lanes(p0), 0x00f0, load128(p1));
    const __m512i third = _mm512_mask_broadcast_i32x4(first, 0x0f00, load128(p2));
    return _mm512_mask_broadcast_i32x4(third, 0xf000, load128(p3));
}

// Lanes i and j of a, then of b.
template <int i, int j>
UNLADEN_INLINE __m512i pick_lanes(__m512i a, __m512i b) {
    return _mm512_shuffle_i32x4(a, b, i | j << 2 | i << 4 | j << 6);
}

// Codebook entries plus `bias`, chosen by nibbles.
UNLADEN_INLINE __m512i look_up(__m512i q, const int8_t *codebook, int bias) {
    const __m128i values = _mm_add_epi8(load128(codebook), _mm_set1_epi8(char(bias)));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), q);
}

constexpr int log2_of(int power) { return __builtin_ctz(unsigned(power)); }

// Bytes of a table, whose length is a power of two, at indices: their low eight bits and, from 256
// on, masks of the others.
template <int n>
UNLADEN_INLINE __m512i from_table(const uint8_t *table, __m512i low, const __mmask64 *more) {
    if constexpr (n == 128) {
        return _mm512_permutex2var_epi8(load512(table), low, load512(table + 64));
    } else {
        const __mmask64 upper = n == 256 ? _mm512_movepi8_mask(low) : more[log2_of(n) - 9];
        return _mm512_mask_blend_epi8(upper, from_table<n / 2>(table, low, more),
                                      from_table<n / 2>(table + n / 2, low, more));
    }
}

// Wide<T>: how to decode T. Its codes are too large by `bias`, 0 or a power of two.
template <class T>
struct Wide;

}  // namespace unladen::cpu::UNLADEN_ISA
