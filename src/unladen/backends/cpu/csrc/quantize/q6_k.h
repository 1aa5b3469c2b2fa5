// Weights as Q6_K.
#pragma once

#include "backends/cpu/csrc/quantize/runs.h"
#include "backends/cpu/csrc/isa/formats/q6_k.h"

namespace unladen::cpu::UNLADEN_ISA {

template <>
struct Quantizer<Q6_K> {
    // An error counts by importance alone or, without it, by the weight's square.
    static void quantize(Tile &t) {
        vec scale[16];
        bvec q[256];
        for (int s = 0; s < 16; ++s) {
            const vec *x = t.x + 16 * s;
            vec w[16];
            for (int i = 0; i < 16; ++i)
                w[i] = t.importance ? t.importance[16 * s + i] : x[i] * x[i];
            const WholeFit<16, 32> fit(x, w);
            for (int i = 0; i < 16; ++i) q[16 * s + i] = to_bytes(fit.code(i));
            scale[s] = fit.scale;
        }
        const vec largest = peak(scale, 16), inverse = -128.0f / largest;
        const ivec nothing = magnitude(largest) < negligible;
        const vec d = t.half(208, choose(nothing, vec{}, 1.0f / inverse));
        for (int s = 0; s < 16; ++s) {
            const ivec code = clamp(nearest_int(inverse * scale[s]), -128, 127) & ~nothing;
            t.byte(192 + s, code);
            scale[s] = d * to_vec(code);
        }
        round_runs<32>(t.x, scale, q);
        for (int i = 0; i < 256; ++i) q[i] &= to_bytes(~nothing);
        t.pack<256, 4, 64>(q, 0, 0);
        t.pack<256, 2, 32>(q, 4, 128);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
