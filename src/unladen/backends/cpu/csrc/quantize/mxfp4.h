// Weights as MXFP4.
#pragma once

#include "backends/cpu/csrc/quantize/tile.h"
#include "backends/cpu/csrc/isa/formats/mxfp4.h"

namespace unladen::cpu::UNLADEN_ISA {

template <>
struct Quantizer<MXFP4> {
    static constexpr bool any_size = true;

    // 2^e is the power of two that takes the number of largest magnitude to 4 .. 8.
    static void quantize(Tile &t) {
        const ivec exponent = ((ivec)magnitude(peak(t.x, 32)) >> 23) - 2;
        const ivec e = exponent < 0 ? ivec{} : exponent;
        t.byte(0, e);
        const vec d = (vec)(e < 2 ? (ivec{} + 0x00200000) << e : (e - 1) << 23);
        // Half-way between two levels, where the smaller one is chosen.
        static constexpr float middles[] = {0.5f, 1.5f, 2.5f, 3.5f, 5.0f, 7.0f, 10.0f};
        bvec q[32];
        for (int i = 0; i < 32; ++i) {
            const vec size = magnitude(t.x[i]);
            ivec level = {};
            for (int l = 0; l < 7; ++l) level -= size > middles[l] * d;
            const ivec minus = (t.x[i] < 0.0f) & (level > 0) & 8;
            q[i] = to_bytes(level | minus);
        }
        t.pack<32, 4, 16>(q, 0, 1);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
