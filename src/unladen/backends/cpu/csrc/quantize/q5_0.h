// Weights as Q5_0.
#pragma once

#include "backends/cpu/csrc/quantize/whole.h"
#include "backends/cpu/csrc/isa/formats/q5_0.h"

namespace unladen::cpu::UNLADEN_ISA {

template <>
struct Quantizer<Q5_0> {
    // The number of largest magnitude becomes q = 0, with its sign in d. With importance: the d of
    // least squares.
    static constexpr bool weighs_by_row = true;
    static void quantize(Tile &t) {
        bvec q[32];
        code_whole<16>(t, q);
        t.pack<32, 4, 16>(q, 0, 6);
        t.pack<32, 1, 1>(q, 4, 2);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
