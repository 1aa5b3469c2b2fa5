// Weights as Q8_0.
#pragma once

#include "backends/cpu/csrc/quantize/whole.h"
#include "backends/cpu/csrc/isa/formats/q8_0.h"

namespace unladen::cpu::UNLADEN_ISA {

template <>
struct Quantizer<Q8_0> {
    // The number of largest magnitude becomes 127 or -127; halves are rounded away from zero.
    static void quantize(Tile &t) {
        const vec d = magnitude(peak(t.x, 32)) / 127.0f, inverse = reciprocal(d);
        t.half(0, d);
        for (int i = 0; i < 32; ++i) t.byte(2 + i, nearest_away(t.x[i] * inverse));
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
