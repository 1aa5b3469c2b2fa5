// Wide<TQ1_0>: codes of 0, 1 and 2, without scales but for the block's.
#pragma once

#include "backends/cpu/csrc/isa/linear_grid.h"

namespace unladen::cpu::UNLADEN_ISA {

// The first four digits of a byte as fields of two bits, and the fifth.
struct TernaryDigits {
    alignas(64) uint8_t four[256] = {}, fifth[256] = {};
    alignas(64) uint16_t both[256] = {};

    constexpr TernaryDigits() {
        for (int byte = 0; byte < 256; ++byte) {
            int fraction = byte;
            for (int k = 0; k < 5; ++k, fraction = fraction * 3 & 255) {
                const int digit = fraction * 3 >> 8;
                if (k < 4) four[byte] = uint8_t(four[byte] | digit << 2 * k);
                if (k == 4) fifth[byte] = uint8_t(digit);
            }
            both[byte] = uint16_t(four[byte] | fifth[byte] << 8);
        }
    }
};

inline constexpr TernaryDigits ternary_digits;

// Where the digits of codes<j>() are, by groups of four: the dword of `four` or, above 15, of
// `fifth`, and their first bit. Digits k of bytes 0 ... 31 are sixteens 2 k and 2 k + 1, of 32 ...
// 47 sixteen 10 + k, and of 48 ... 51 a fourth of sixteen 15.
struct TernaryPlaces {
    alignas(64) uint32_t dword[4][16] = {}, shift[4][16] = {};

    constexpr TernaryPlaces() {
        for (int i = 0; i < 64; ++i) {
            const int j = i / 16, lane = i / 4 % 4, e = i % 4, s = j + 4 * lane;
            const int k = s < 10 ? s / 2 : s < 15 ? s - 10 : e;
            const int first = s < 10 ? s % 2 * 4 + e : s < 15 ? 8 + e : 12;
            dword[j][i % 16] = uint32_t(k < 4 ? first : first + 16);
            shift[j][i % 16] = uint32_t(k < 4 ? 2 * k : 0);
        }
    }
};

inline constexpr TernaryPlaces ternary_places;

template <>
struct Wide<TQ1_0> {
    static constexpr int bias = 1, sub = 256;
    static constexpr __mmask64 odd_bytes = 0xaaaaaaaaaaaaaaaa;
    const uint8_t *w;
    __m512i four, fifth;

    UNLADEN_INLINE explicit Wide(const uint8_t *block) : w(block) {
        const __m512i q = _mm512_maskz_loadu_epi8((uint64_t(1) << 52) - 1, block);
#if defined(__AVX512VBMI__)
        four = from_table<256>(ternary_digits.four, q, nullptr);
        fifth = from_table<256>(ternary_digits.fifth, q, nullptr);
#else
        const __m512i even = from_table<256>(ternary_digits.both, q, nullptr);
        const __m512i odd = from_table<256>(ternary_digits.both, _mm512_srli_epi16(q, 8), nullptr);
        four = _mm512_mask_blend_epi8(odd_bytes, even, _mm512_slli_epi16(odd, 8));
        fifth = _mm512_mask_blend_epi8(odd_bytes, _mm512_srli_epi16(even, 8), odd);
#endif
    }
    template <int j>
    UNLADEN_INLINE __m512i codes() const {
        const __m512i both =
            _mm512_permutex2var_epi32(four, load512(ternary_places.dword[j]), fifth);
        return _mm512_and_si512(_mm512_srlv_epi32(both, load512(ternary_places.shift[j])),
                                _mm512_set1_epi8(3));
    }
    UNLADEN_INLINE __m256i scales() const { return _mm256_set1_epi16(1); }
    UNLADEN_INLINE __m128 d() const {
        return _mm_cvtph_ps(_mm_cvtsi32_si128(bits::load<uint16_t>(w + 52)));
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
