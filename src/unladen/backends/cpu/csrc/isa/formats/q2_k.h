// Q2_K: 256 weights in 84 bytes, 2.625 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"
#include "backends/cpu/csrc/isa/formats/int8.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * scale * q - dmin * min, a scale and a min per 16 weights. Byte 0: scales in the low
// nibbles, mins in the high ones; 16: q, 128 weights in 32 bytes, byte j holds q[j], q[j + 32],
// ...; 80: d (float16); 82: dmin (float16).
struct Q2_K {
    static constexpr const char *name = "Q2_K";
    static constexpr int block_size = 256, block_bytes = 84;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block + 80), dmin = bits::half(block + 82);
        for (int s = 0; s < 16; ++s, y += 16) {
            const uint8_t *p = block + 16 + s / 8 * 32 + s % 2 * 16;
            const int shift = s % 8 / 2 * 2;
            const float scale = d * (block[s] & 15), min = dmin * (block[s] >> 4);
            for (int i = 0; i < 16; i += 8) {
                bits::each(y + i, bits::field(p + i, shift, 3),
                           [=](auto q) { return scale * q - min; });
            }
        }
    }
};

#if defined(UNLADEN_AVX512)

template <>
struct Fields<Q2_K> : FieldSizes<16, 16, 16, 16, 16, 2, 2> {
    // d and dmin come first, then the other bytes.
    static constexpr int place(int a) { return a >= 80 ? a - 80 : a + 4; }
};

template <>
struct InLanes<Q2_K> : Fields<Q2_K> {
    static constexpr int rolled_lines = 32, rolled_bytes = 512;
    static constexpr int sub = 16;
    static constexpr int times(int s) { return 1 << s % 8 / 2 * 2; }
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        return two_bits<Q2_K>(w, 16, i, i % 32 / 8 * 2);
    }
    static UNLADEN_INLINE void scales(Scales256 &to, Interleaved w) {
        const __m512 d = w.half(place(80));
        for (int i = 0; i < 4; ++i) {
            const __m512i both = w.four(place(4 * i));
            to.put_scales<InLanes>(4 * i, d, nibbles(both, false));
            to.put_mins(4 * i, nibbles(both, true));
        }
        to.put_dmin(w.half(place(82)));
    }
};

#else

template <>
struct Codes<Q2_K> {
    static constexpr int strands_at = 16, n_strands = 2;
    static constexpr int bias = 0, max_code = 3, sub = 16;
    static constexpr bool has_min = true, is_signed = false;
    const uint8_t *b;
    explicit Codes(const uint8_t *block) : b(block) {}
    float d() const { return bits::half(b + 80); }
    float dmin() const { return bits::half(b + 82); }
    Words16 scales() const { return Words16::of_signed(b).field(0, 15); }
    Words16 mins() const { return Words16::of_signed(b).field(4, 15); }
    Bytes32 codes(int s) const { return two_bits(b + 16, s); }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
