// TQ1_0: 256 weights in 54 bytes, 1.6875 bits each.
#pragma once

#include "backends/cpu/csrc/quants/bits.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (t - 1), t of 0..2. A byte holds five of them as a fraction of 256 in base 3, rounded up;
// times 3^k, modulo 256, it starts at the k-th. Byte 0: 160 t in 32 bytes, byte j holds t[j],
// t[j + 32], ...; 32: 80 t in 16, likewise; 48: 16 t in 4, likewise; 52: d (float16).
struct TQ1_0 {
    static constexpr const char *name = "TQ1_0";
    static constexpr int block_size = 256, block_bytes = 54;
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

}  // namespace unladen::cpu::UNLADEN_ISA
