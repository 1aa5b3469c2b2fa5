// Q4_K: 256 weights in 144 bytes, 4.5 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/int8.h"
#include "backends/cpu/csrc/isa/formats/k_scales.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * scale * q - dmin * min, a scale and a min per 32 weights. Byte 0: d (float16); 2: dmin
// (float16); 4: scales and mins; 16: q, 64 weights in 32 bytes, byte j holds q[j] and q[j + 32].
struct Q4_K {
    static constexpr const char *name = "Q4_K";
    static constexpr int block_size = 256, block_bytes = 144;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block), dmin = bits::half(block + 2);
        for (int s = 0; s < 8; ++s, y += 32) {
            const uint8_t *p = block + 16 + s / 2 * 32;
            const float scale = d * bits::k_scale(block + 4, s);
            const float min = dmin * bits::k_min(block + 4, s);
            for (int i = 0; i < 32; i += 8) {
                bits::each(y + i, bits::field(p + i, s % 2 * 4, 15),
                           [=](auto q) { return scale * q - min; });
            }
        }
    }
};

#if defined(UNLADEN_AVX512)

template <>
struct Fields<Q4_K> : FieldSizes<2, 2, 4, 4, 4, 16, 16, 16, 16, 16, 16, 16, 16> {};

template <>
struct InLanes<Q4_K> : KHeaderInLanes<Q4_K> {
    static constexpr int rolled_lines = 16, rolled_bytes = 512;
    static constexpr int times(int s) { return s % 2 ? 16 : 1; }
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        return masked(w.four(16 + i / 16 * 32 + i % 8 * 4), i / 8 % 2 ? 0xf0 : 0x0f);
    }
};

#else

template <>
struct Codes<Q4_K> : KHeader {
    static constexpr int strands_at = 16, n_strands = 4;
    static constexpr int max_code = 15;
    using KHeader::KHeader;
    Bytes32 codes(int s) const {
        return Bytes32::load(b + 16 + s / 2 * 32).field(s % 2 * 4, 15);
    }
};

#endif

#if defined(UNLADEN_AVX2)

template <>
struct RowKernel<Q4_K> : RowOfK<Q4_K> {};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
