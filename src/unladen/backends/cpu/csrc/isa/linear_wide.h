// The integers inside blocks as AVX-512 registers: 64 unsigned codes, the first operand of
// vpdpbusd, in the lane orders of linear_act.h. Layouts of blocks: the headers in quants/.
#pragma once

#include "backends/cpu/csrc/isa/bytes512.h"
#include "backends/cpu/csrc/quants/all.h"

namespace unladen::cpu::UNLADEN_ISA {

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

// Wide<T>: how to decode T. Its codes are too large by `bias`, 0 or a power of two.
template <class T>
struct Wide;

}  // namespace unladen::cpu::UNLADEN_ISA
