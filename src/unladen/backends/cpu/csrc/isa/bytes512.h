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

}  // namespace unladen::cpu::UNLADEN_ISA
