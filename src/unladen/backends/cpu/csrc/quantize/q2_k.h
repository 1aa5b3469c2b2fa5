// Weights as Q2_K.
#pragma once

#include "backends/cpu/csrc/quantize/runs.h"
#include "backends/cpu/csrc/isa/formats/q2_k.h"

namespace unladen::cpu::UNLADEN_ISA {

template <>
struct Quantizer<Q2_K> {
    static void quantize(Tile &t) {
        const auto plain = [](const vec *x, vec *w) {
            for (int i = 0; i < 16; ++i) w[i] = magnitude(x[i]);
        };
        const OffsetRuns<16, 3, 15> runs(t, 80, 82, 1.0f, {-0.5f, 0.1f, 15, true}, plain);
        for (int s = 0; s < 16; ++s) t.byte(s, runs.code[s] | runs.min_code[s] << 4);
        t.pack<256, 2, 32>(runs.q, 0, 16);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
