// Q5_K: 256 weights in 176 bytes, 5.5 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/int8.h"
#include "backends/cpu/csrc/isa/formats/k_scales.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * scale * q - dmin * min, a scale and a min per 32 weights. Byte 0: d (float16); 2: dmin
// (float16); 4: scales and mins; 16: the fifth bits of q, byte j holds those of q[j], q[j + 32],
// ...; 48: the low four, 64 weights in 32 bytes, likewise.
struct Q5_K {
    static constexpr const char *name = "Q5_K";
    static constexpr int block_size = 256, block_bytes = 176;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block), dmin = bits::half(block + 2);
        const uint8_t *fifth = block + 16;
        for (int s = 0; s < 8; ++s, y += 32) {
            const uint8_t *p = block + 48 + s / 2 * 32;
            const float scale = d * bits::k_scale(block + 4, s);
            const float min = dmin * bits::k_min(block + 4, s);
            for (int i = 0; i < 32; i += 8) {
                const uint64_t top = bits::field(fifth + i, s, 1) << 4;
                bits::each(y + i, bits::field(p + i, s % 2 * 4, 15) | top,
                           [=](auto q) { return scale * q - min; });
            }
        }
    }
};

#if defined(UNLADEN_AVX512)

template <>
struct Fields<Q5_K> : FieldSizes<2, 2, 4, 4, 4, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16> {
    // Low bits are next to the high bits of the same codes.
    static constexpr int place(int a) {
        if (a < 16 || a >= 80) return a;
        return 16 + (a < 48 ? 2 * (a - 16) + 4 : 2 * (a - 48));
    }
};

template <>
struct InLanes<Q5_K> : KHeaderInLanes<Q5_K>, Fields<Q5_K>, TimesOne {
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        const __m512i q = nibbles(w.four(place(48 + i / 16 * 32 + i % 8 * 4)), i / 8 % 2);
        return either(q, shifted(w.four(place(16 + i % 8 * 4)), i / 8, 1, 4));
    }
};

template <>
struct InLanes<Planes<Q5_K>> : KHeaderInLanes<Q5_K>, FiveBits<16, 0>, TimesOne {};

#else

template <>
struct Codes<Q5_K> : KHeader {
    static constexpr int strands_at = 16, n_strands = 5;
    static constexpr int max_code = 31;
    using KHeader::KHeader;
    Bytes32 codes(int s) const {
        const Bytes32 fifth = Bytes32::load(b + 16).field(s - 4, 16);
        return Bytes32::load(b + 48 + s / 2 * 32).field(s % 2 * 4, 15).plus(fifth);
    }
};

#endif

#if defined(UNLADEN_AVX2)

template <>
struct RowKernel<Q5_K> : RowOfK<Q5_K> {};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
