// NVFP4: 64 weights in 36 bytes, 4.5 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"
#include "backends/cpu/csrc/isa/formats/tables.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d / 2 * codebook[q], a d per 16 weights, the codebook being E2M1 doubled. Byte 0: d (E4M3
// without its sign; 0x7f, a NaN there, counts as zero); 4: q, 16 weights in 8 bytes, byte j holds
// q[j] and q[j + 8].
struct NVFP4 {
    static constexpr const char *name = "NVFP4";
    static constexpr int block_size = 64, block_bytes = 36;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        for (int s = 0; s < 4; s += 2, y += 32) {
            uint8_t low[16], high[16];
            bits::look_up_nibbles(block + 4 + 8 * s, quants::kvalues_mxfp4, low, high);
            for (int i = 0; i < 2; ++i) {
                const float d = half_e4m3(block[s + i]);
                bits::scale<8>(y + 16 * i, d, low + 8 * i);
                bits::scale<8>(y + 16 * i + 8, d, high + 8 * i);
            }
        }
    }

private:
    static inline float half_e4m3(uint8_t x) {
        const uint32_t exponent = x >> 3 & 15, mantissa = x & 7;
        if (x == 0x7f) return 0;
        if (exponent == 0) return float(mantissa) * 0x1p-10f;
        return bits::float_of((exponent + 127 - 7 - 1) << 23 | mantissa << 20);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
