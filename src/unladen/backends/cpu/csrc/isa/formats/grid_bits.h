// Signs and scales of the formats with grids, 32 bytes at a time.
#pragma once

#include "backends/cpu/csrc/isa/activations/layout.h"
#include "backends/cpu/csrc/isa/formats/grid.h"

namespace unladen::cpu::UNLADEN_ISA {

// Sets the highest bit of each byte so that the number of set bits is even.
UNLADEN_INLINE __m256i with_eighth(__m256i bytes) {
#if defined(__GFNI__)
    // Byte 7 - i of the matrix makes bit i: bits 0 to 6 are copied, bit 7 is their parity.
    return _mm256_gf2p8affine_epi64_epi8(bytes, _mm256_set1_epi64x(0x010204081020407f), 0);
#else
    // For each nibble, the highest bit says whether its number of set bits is odd.
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

// 16 nibbles of eight bytes as words.
UNLADEN_INLINE __m256i nibble_words(const uint8_t *p) {
    const __m128i packed = _mm_cvtsi64_si128(bits::load<int64_t>(p)), mask = _mm_set1_epi8(15);
    return _mm256_cvtepu8_epi16(
        _mm_unpacklo_epi8(_mm_and_si128(packed, mask),
                          _mm_and_si128(_mm_srli_epi16(packed, 4), mask)));
}
// Each 32-bit number, below 2^16, as two words.
UNLADEN_INLINE __m256i two_words(__m256i v) {
    return _mm256_or_si256(v, _mm256_slli_epi32(v, 16));
}
// Eight nibbles of four bytes as two words each.
UNLADEN_INLINE __m256i nibble_pairs(const uint8_t *p) {
    const uint64_t bytes = bits::spread_nibbles(bits::load<uint32_t>(p));
    return two_words(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(int64_t(bytes))));
}

// A scale of 2 s + 1 for each word s.
UNLADEN_INLINE __m256i odd_scales(__m256i s) {
    return _mm256_add_epi16(_mm256_add_epi16(s, s), _mm256_set1_epi16(1));
}

// The bias that makes IQ1's codes, eight times the entries plus or minus 1, unsigned.
constexpr int iq1_bias = 16;

// The steps s of IQ1_S's scales 2 s + 1, as two words each.
UNLADEN_INLINE __m256i iq1_s_steps(const uint8_t *block) {
    const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i *>(block + 34));
    const __m256i s = _mm256_cvtepu16_epi32(_mm_srli_epi16(words, 12));
    return two_words(_mm256_and_si256(s, _mm256_set1_epi32(7)));
}

}  // namespace unladen::cpu::UNLADEN_ISA
