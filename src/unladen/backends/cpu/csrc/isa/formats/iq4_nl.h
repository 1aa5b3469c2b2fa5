// IQ4_NL: 32 weights in 18 bytes, 4.5 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"
#include "backends/cpu/csrc/isa/formats/int8.h"
#include "backends/cpu/csrc/isa/formats/tables.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * codebook[q]. Byte 0: d (float16); 2: q, byte j holds q[j] and q[j + 16].
struct IQ4_NL {
    static constexpr const char *name = "IQ4_NL";
    static constexpr int block_size = 32, block_bytes = 18;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        uint8_t q[32];
        bits::look_up_nibbles(block + 2, quants::kvalues_iq4nl, q, q + 16);
        bits::scale<32>(y, bits::half(block), q);
    }
};

#if defined(UNLADEN_AVX512)

template <>
struct Fields<IQ4_NL> : FieldSizes<2, 16> {};

template <>
struct InLanes<IQ4_NL> {
    static constexpr int bias = 128;
    static constexpr bool has_short_scales = true;
    static constexpr size_t rolled_ahead = 4096;  // decoding takes few instructions
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        return look_up(nibble_line(w, 2, i), quants::kvalues_iq4nl, 128);
    }
    static UNLADEN_INLINE __m512 scale(Interleaved w) { return w.half(0); }
};

#else

template <>
struct Codes<IQ4_NL> : NibbleCodes<Codes<IQ4_NL>, 2> {
    static constexpr bool is_signed = true;
    static constexpr int bias = 0, max_code = 127;
    static constexpr bool has_min = false;
    static Bytes32 decode(Bytes32 nibbles) { return nibbles.look_up(quants::kvalues_iq4nl); }
    static float d(const uint8_t *b) { return bits::half(b); }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
