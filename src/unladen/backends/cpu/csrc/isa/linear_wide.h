// The integers inside blocks as AVX-512 registers: 64 unsigned codes, the first operand of
// vpdpbusd, in the lane orders of linear_act.h. Layouts of blocks: the headers in quants/.
#pragma once

#include "backends/cpu/csrc/isa/bytes512.h"
#include "backends/cpu/csrc/quants/all.h"

namespace unladen::cpu::UNLADEN_ISA {

UNLADEN_INLINE __m512i broadcast4(const void *p) {
    return _mm512_set1_epi32(bits::load<int32_t>(static_cast<const uint8_t *>(p)));
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
