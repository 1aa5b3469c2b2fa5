// TQ1_0: 256 weights in 54 bytes, 1.6875 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"
#include "backends/cpu/csrc/isa/formats/ternary.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (t - 1), t of 0..2. A byte holds five of them as a fraction of 256 in base 3, rounded up;
// times 3^k, modulo 256, it starts at the k-th. Byte 0: 160 t in 32 bytes, byte j holds t[j],
// t[j + 32], ...; 32: 80 t in 16, likewise; 48: 16 t in 4, likewise; 52: d (float16).
struct TQ1_0 {
    static constexpr const char *name = "TQ1_0";
    static constexpr int block_size = 256, block_bytes = 54;
    static constexpr bool is_looked_up = true;  // digits are, if a level has tables
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block + 52);
        unpack<32, 5>(y, d, block);
        unpack<16, 5>(y + 160, d, block + 32);
        unpack<4, 4>(y + 240, d, block + 48);
    }

private:
    template <int n_bytes, int n_each>
    static inline void unpack(float *__restrict y, float d, const uint8_t *__restrict packed) {
        uint8_t power = 1;
        for (int k = 0; k < n_each; ++k, power *= 3) {
            for (int i = 0; i < n_bytes; ++i) {
                const uint8_t fraction = packed[i] * power;
                y[n_bytes * k + i] = d * ((fraction * 3 >> 8) - 1);
            }
        }
    }
};

#if defined(UNLADEN_AVX512)

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

// The places of the digits for codes<j>(), in groups of four: the dword of `four` or, above 15, of
// `fifth`, and the first bit. Digit k of bytes 0 ... 31 is in sixteens 2 k and 2 k + 1, that of
// bytes 32 ... 47 in sixteen 10 + k, and that of bytes 48 ... 51 is a fourth of sixteen 15.
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
struct Codes512<TQ1_0> {
    static constexpr int bias = 1, sub = 256;
    static constexpr __mmask64 odd_bytes = 0xaaaaaaaaaaaaaaaa;
    const uint8_t *w;
    __m512i four, fifth;

    UNLADEN_INLINE explicit Codes512(const uint8_t *block) : w(block) {
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

#else

#if defined(UNLADEN_AVX2)

// Digits in base 3: the first digits of fractions of 256, which are multiplied by powers of 3; see
// above. Fractions are stored as signed bytes, less by 128, and so are their products with 3.
template <>
struct Codes<TQ1_0> : TernaryCodes {
    static constexpr int max_code = 2;
    Bytes32 fractions[8];
    explicit Codes(const uint8_t *block) : TernaryCodes(block) {
        __m256i all = _mm256_xor_si256(load256(block), _mm256_set1_epi8(-128));
        for (int s = 0; s < 5; ++s, all = tripled(all)) fractions[s] = {all};
        __m128i half = _mm_xor_si128(load128(block + 32), _mm_set1_epi8(-128));
        for (int s = 5; s < 7; ++s) {
            const __m128i next = tripled(half);
            fractions[s] = {_mm256_setr_m128i(half, next)};
            half = tripled(next);
        }
        const __m128i four = _mm_cvtsi32_si128(bits::load<int32_t>(block + 48) ^ 0x80808080);
        const __m128i first = _mm_unpacklo_epi32(four, tripled(four));
        const __m128i second = tripled(tripled(first));
        fractions[7] = {_mm256_setr_m128i(half, _mm_unpacklo_epi64(first, second))};
    }
    float d() const { return bits::half(b + 52); }
    Bytes32 codes(int s) const {
        const __m256i one = _mm256_cmpgt_epi8(fractions[s].v, _mm256_set1_epi8(85 - 128));
        const __m256i two = _mm256_cmpgt_epi8(fractions[s].v, _mm256_set1_epi8(170 - 128));
        return {_mm256_abs_epi8(_mm256_add_epi8(one, two))};
    }

private:
    // Three times each byte, modulo 256.
    static __m256i tripled(__m256i v) { return _mm256_add_epi8(v, _mm256_add_epi8(v, v)); }
    static __m128i tripled(__m128i v) { return _mm_add_epi8(v, _mm_add_epi8(v, v)); }
};

#else

template <>
struct Codes<TQ1_0> : TernaryCodes {
    static constexpr int max_code = 2;
    using TernaryCodes::TernaryCodes;
    float d() const { return bits::half(b + 52); }
    Bytes32 codes(int s) const { return fractions(s).first_thirds(); }

private:
    Bytes32 fractions(int s) const {
        if (s < 5) {
            constexpr uint64_t power[] = {1, 3, 9, 27, 81};
            const uint64_t p = power[s] * bits::ones;
            return Bytes32::load(b).times(Bytes32::of(p, p, p, p));
        }
        constexpr uint64_t ones = bits::ones, last = ones & 0xffffffff;
        const auto first = bits::load<uint64_t>(b + 32), second = bits::load<uint64_t>(b + 40);
        if (s < 7) {
            const uint64_t p = s == 5 ? ones : 9 * ones;
            return Bytes32::of(first, second, first, second)
                .times(Bytes32::of(p, p, 3 * p, 3 * p));
        }
        const auto four = bits::load<uint32_t>(b + 48) * uint64_t(0x0000000100000001);
        return Bytes32::of(first, second, four, four)
            .times(Bytes32::of(81 * ones, 81 * ones, last | (last * 3) << 32,
                               last * 9 | (last * 27) << 32));
    }
};

#endif

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
