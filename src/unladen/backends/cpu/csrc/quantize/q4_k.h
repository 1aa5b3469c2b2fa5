// Weights as Q4_K.
#pragma once

#include "backends/cpu/csrc/quantize/runs.h"
#include "backends/cpu/csrc/isa/formats/q4_k.h"

namespace unladen::cpu::UNLADEN_ISA {

template <>
struct Quantizer<Q4_K> {
    static void quantize(Tile &t) {
        const auto plain = [](const vec *x, vec *w) {
            const vec typical = root(sum_of_squares(x, 32) / 32.0f);
            for (int i = 0; i < 32; ++i) w[i] = typical + magnitude(x[i]);
        };
        const OffsetRuns<32, 15, 63> runs(t, 0, 2, 2.0f, {-1.0f, 0.1f, 20}, plain);
        store_k_scales(t, runs.code, runs.min_code);
        t.pack<256, 4, 32>(runs.q, 0, 16);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
