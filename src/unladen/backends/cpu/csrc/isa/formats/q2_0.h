// Q2_0: 64 weights in 18 bytes, 2.25 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"
#include "backends/cpu/csrc/isa/formats/int8.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (q - 1). Byte 0: d (float16); 2: q, in the order of the bits.
struct Q2_0 {
    static constexpr const char *name = "Q2_0";
    static constexpr int block_size = 64, block_bytes = 18;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block);
        for (int i = 0; i < 8; ++i) {
            bits::each(y + 8 * i, eight(block + 2 + 2 * i), [d](auto w) { return d * (w - 1); });
        }
    }
    // The codes in two bytes, as eight.
    static inline uint64_t eight(const uint8_t *p) {
        uint64_t q = p[0] | uint64_t(p[1]) << 32;
        q |= q << 12;
        q |= q << 6;
        return q & 3 * bits::ones;
    }
};

#if defined(UNLADEN_AVX512)

template <>
struct Fields<Q2_0> : FieldSizes<2, 16> {};

struct Q20HeaderInLanes {
    static constexpr int bias = 1;
    static UNLADEN_INLINE __m512 scale(Interleaved w) { return w.half(0); }
};

// A line's codes are a byte of each row.
template <>
struct InLanes<Q2_0> : Q20HeaderInLanes {
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        const __m512i four = down(w.four(2 + i / 4 * 4), i % 4 * 8);
        __m512i all = _mm512_and_si512(four, _mm512_set1_epi32(0xff));
        all = either(all, _mm512_slli_epi32(all, 12));
        return masked(either(all, _mm512_slli_epi32(all, 6)), 3);
    }
};

// Four lines, one above the other.
template <>
struct InLanes<Planes<Q2_0>> : Q20HeaderInLanes, PlanesOf<2, 4, 1> {
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        return shifted(plane(w, i, 0), i % 4 * 2, 2, 0);
    }
    static UNLADEN_INLINE void join(const __m512i (&q)[4], __m512i (&plane)[1]) {
        plane[0] = q[0];
        for (int j = 1; j < 4; ++j) plane[0] = with_bits(plane[0], q[j], 0, 2, 2 * j);
    }
};

#else

template <>
struct Codes<Q2_0> {
    static constexpr bool is_signed = false;
    static constexpr int bias = 1, max_code = 3;
    static constexpr bool has_min = false;
    static Bytes32 codes(const uint8_t *b, int i) {
        const uint8_t *p = b + 2 + 8 * i;
#if defined(UNLADEN_AVX2)
        __m256i q = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bits::load<int64_t>(p)));
        q = _mm256_or_si256(q, _mm256_slli_epi32(q, 12));
        q = _mm256_or_si256(q, _mm256_slli_epi32(q, 6));
        return Bytes32{q}.field(0, 3);
#else
        return Bytes32::of(Q2_0::eight(p), Q2_0::eight(p + 2), Q2_0::eight(p + 4),
                           Q2_0::eight(p + 6));
#endif
    }
    static float d(const uint8_t *b) { return bits::half(b); }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
