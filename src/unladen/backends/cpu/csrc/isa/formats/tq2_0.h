// TQ2_0: 256 weights in 66 bytes, 2.0625 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"
#include "backends/cpu/csrc/isa/formats/ternary.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (q - 1). Byte 0: q, 128 weights in 32 bytes, byte j holds q[j], q[j + 32], ...; 64: d
// (float16).
struct TQ2_0 {
    static constexpr const char *name = "TQ2_0";
    static constexpr int block_size = 256, block_bytes = 66;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block + 64);
        for (int s = 0; s < 8; ++s, y += 32) {
            const uint8_t *p = block + s / 4 * 32;
            for (int i = 0; i < 32; i += 8) {
                bits::each(y + i, bits::field(p + i, s % 4 * 2, 3),
                           [d](auto q) { return d * (q - 1); });
            }
        }
    }
};

#if defined(UNLADEN_AVX512)

template <>
struct Fields<TQ2_0> : FieldSizes<16, 16, 16, 16, 2> {
    // d comes first, then the other bytes.
    static constexpr int place(int a) { return a >= 64 ? a - 64 : a + 2; }
};

template <>
struct InLanes<TQ2_0> : Fields<TQ2_0> {
    static constexpr int rolled_lines = 32, rolled_bytes = 512;
    static constexpr int sub = 32;
    static constexpr int times(int s) { return 1 << s % 4 * 2; }
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        return two_bits<TQ2_0>(w, 0, i, i % 32 / 8 * 2);
    }
    static UNLADEN_INLINE void scales(Scales256 &to, Interleaved w) {
        const __m512 d = w.half(place(64));
        for (int s = 0; s < 8; ++s) {
            _mm512_store_ps(to.scale[s], _mm512_mul_ps(d, _mm512_set1_ps(1.0f / times(s))));
        }
        for (int p = 0; p < 4; ++p) to.put_min_pairs(p, _mm512_set1_epi16(1));
        to.put_dmin(d);
    }
};

#else

template <>
struct Codes<TQ2_0> : TernaryCodes {
    static constexpr int max_code = 3;
    using TernaryCodes::TernaryCodes;
    float d() const { return bits::half(b + 64); }
    Bytes32 codes(int s) const { return two_bits(b, s); }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
