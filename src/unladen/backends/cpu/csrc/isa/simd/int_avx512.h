// Bytes of AVX-512 registers.
#pragma once

#include "backends/cpu/csrc/isa/activations/layout.h"
#include "backends/cpu/csrc/isa/formats/bits.h"

namespace unladen::cpu::UNLADEN_ISA {

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

UNLADEN_INLINE __m512i masked(__m512i v, int byte) {
    return _mm512_and_si512(v, all_bytes(byte));
}
UNLADEN_INLINE __m512i either(__m512i a, __m512i b) { return _mm512_or_si512(a, b); }
UNLADEN_INLINE __m512i down(__m512i v, int n) { return _mm512_srli_epi32(v, unsigned(n)); }
// n bits from bit `from` of each byte, at bit `to`. Next to products, shifts cost less than GFNI's
// instruction, which needs the units that multiply: 0.82 of the time for Q6_K with eight columns.
UNLADEN_INLINE __m512i shifted(__m512i v, int from, int n, int to) {
    const __m512i there = from < to ? _mm512_slli_epi32(v, unsigned(to - from))
                                    : down(v, from - to);
    return masked(there, ((1 << n) - 1) << to);
}
// n bits of `v` from bit `from` on, at bit `to`, and `other`.
UNLADEN_INLINE __m512i with_bits(__m512i other, __m512i v, int from, int n, int to) {
    return either(other, shifted(v, from, n, to));
}
UNLADEN_INLINE __m512i nibbles(__m512i v, bool high) { return shifted(v, high ? 4 : 0, 4, 0); }

}  // namespace unladen::cpu::UNLADEN_ISA
