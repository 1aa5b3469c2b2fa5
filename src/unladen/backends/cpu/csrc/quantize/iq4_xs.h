// Weights as IQ4_XS.
#pragma once

#include "backends/cpu/csrc/quantize/iq4.h"
#include "backends/cpu/csrc/isa/formats/iq4_xs.h"

namespace unladen::cpu::UNLADEN_ISA {

template <>
struct Quantizer<IQ4_XS> {
    static void quantize(Tile &t) {
        const vec square = 2.0f * sum_of_squares(t.x, 256) / 256.0f;
        vec scale[8];
        for (int s = 0; s < 8; ++s) scale[s] = fit_codebook(t, 32 * s, square);
        const vec d = -peak(scale, 8) / 32.0f, inverse = choose(d == 0.0f, vec{}, 1.0f / d);
        t.half(0, d);
        ivec code[8];
        bvec q[256];
        for (int s = 0; s < 8; ++s) {
            const ivec l = clamp(nearest_int(inverse * scale[s]), -32, 31);
            const vec run = d * to_vec(l), run_inverse = choose(run == 0.0f, vec{}, 1.0f / run);
            for (int i = 32 * s; i < 32 * s + 32; ++i)
                q[i] = IQ4Codebook::index_of(run_inverse * t.x[i]);
            code[s] = l + 32;
        }
        for (int b = 0; b < 2; ++b)
            t.byte(2 + b, code[4 * b] >> 4 | code[4 * b + 1] >> 4 << 2 | code[4 * b + 2] >> 4 << 4 |
                              code[4 * b + 3] >> 4 << 6);
        for (int b = 0; b < 4; ++b) t.byte(4 + b, (code[2 * b] & 15) | (code[2 * b + 1] & 15) << 4);
        t.pack<256, 4, 16>(q, 0, 8);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
