// Common code of IQ4_NL and IQ4_XS: runs of 32 weights as 16 unevenly spaced levels.
#pragma once

#include "backends/cpu/csrc/quantize/search.h"
#include "backends/cpu/csrc/isa/formats/tables.h"

namespace unladen::cpu::UNLADEN_ISA {

struct IQ4Codebook {
    static constexpr bool weigh_q_first = true;

    static constexpr float value(int i) { return float(quants::kvalues_iq4nl[i]); }
    // Half-way between levels i and i + 1, where the upper one is chosen.
    static constexpr float middle(int i) { return 0.5f * (value(i) + value(i + 1)); }

    static vec nearest_of(vec a) {
        vec q = splat(value(0));
#pragma GCC unroll 15
        for (int i = 0; i < 15; ++i)
            q += choose(a >= middle(i), splat(value(i + 1) - value(i)), vec{});
        return q;
    }

    static bvec index_of(vec a) {
        ivec index = {};
#pragma GCC unroll 15
        for (int i = 0; i < 15; ++i) index -= a >= middle(i);
        return to_bytes(index);
    }
};

// The scale of the 32 weights from `first` on. `square` is twice the mean square of the weights
// around them; without importance an error counts by the weight's square.
static inline vec fit_codebook(const Tile &t, int first, vec square) {
    const vec *x = t.x + first;
    vec w[32];
    if (t.importance) {
        t.weigh(w, first, 32, square);
    } else {
        for (int i = 0; i < 32; ++i) w[i] = x[i] * x[i];
    }
    float tries[15];
    for (int k = 0; k < 15; ++k) tries[k] = float(k - 7) + IQ4Codebook::value(0);
    const vec largest = peak(x, 32);
    const vec first_scale = -largest / IQ4Codebook::value(0);
    const ScaleFit<32, IQ4Codebook> fit(x, w, largest, 1.0f / first_scale, tries, 15);
    return choose(magnitude(largest) < negligible, vec{}, fit.scale);
}

}  // namespace unladen::cpu::UNLADEN_ISA
