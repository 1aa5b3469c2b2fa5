// Weights as IQ4_NL.
#pragma once

#include "backends/cpu/csrc/quantize/iq4.h"
#include "backends/cpu/csrc/isa/formats/iq4_nl.h"

namespace unladen::cpu::UNLADEN_ISA {

template <>
struct Quantizer<IQ4_NL> {
    static void quantize(Tile &t) {
        const vec scale = fit_codebook(t, 0, 2.0f * sum_of_squares(t.x, 32) / 32.0f);
        t.half(0, scale);
        const vec inverse = choose(scale == 0.0f, vec{}, 1.0f / scale);
        bvec q[32];
        for (int i = 0; i < 32; ++i) q[i] = IQ4Codebook::index_of(inverse * t.x[i]);
        t.pack<32, 4, 16>(q, 0, 2);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
