// Weights as Q5_1.
#pragma once

#include "backends/cpu/csrc/quantize/whole.h"
#include "backends/cpu/csrc/isa/formats/q5_1.h"

namespace unladen::cpu::UNLADEN_ISA {

template <>
struct Quantizer<Q5_1> {
    // The smallest number becomes q = 0, the largest q = 31. With importance: d and m of least
    // squares.
    static constexpr bool weighs_by_row = true;
    static void quantize(Tile &t) {
        bvec q[32];
        code_offset<31>(t, q);
        t.pack<32, 4, 16>(q, 0, 8);
        t.pack<32, 1, 1>(q, 4, 4);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
