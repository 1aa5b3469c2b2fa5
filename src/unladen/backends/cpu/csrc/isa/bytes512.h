// Bytes of AVX-512 registers.
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

// Seven bits and, in place of the highest, one that makes the number of set ones even.
UNLADEN_INLINE __m256i with_eighth(__m256i bytes) {
#if defined(__GFNI__)
    // The row that makes bit i is byte 7 - i: bits 0 to 6 as they are, their parity above.
    return _mm256_gf2p8affine_epi64_epi8(bytes, _mm256_set1_epi64x(0x010204081020407f), 0);
#else
    // Whether nibbles have an odd number of set bits, in the highest bit.
    const __m256i odd = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128, 0));
    const __m256i nibble = _mm256_set1_epi8(15), seven = _mm256_set1_epi8(0x7f);
    bytes = _mm256_and_si256(bytes, seven);
    const __m256i low = _mm256_shuffle_epi8(odd, _mm256_and_si256(bytes, nibble));
    const __m256i high =
        _mm256_shuffle_epi8(odd, _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble));
    return _mm256_or_si256(bytes, _mm256_xor_si256(low, high));
#endif
}

}  // namespace unladen::cpu::UNLADEN_ISA
