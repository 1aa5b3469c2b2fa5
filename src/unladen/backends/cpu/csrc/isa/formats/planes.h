// Eight lines of codes of five or three bits in five or three planes: some lines are the low bits
// of a plane, and pieces of the other lines are in the bits above. V is a register of bytes with
// functions with_bits(), masked() and shifted().
#pragma once

#include "backends/cpu/csrc/isa/activations/layout.h"

namespace unladen::cpu::UNLADEN_ISA {

// Codes of five bits, `up` bits above the lowest bit. In the other bits, from bit `beside` on, the
// three low bits of lines 5, 6 and 7 are with lines 0, 2 and 4, their high bits with 1 and 3.
template <int up>
struct FivePlanes {
    static constexpr int mask = 0x1f << up, beside = (5 + up) % 8;

    // Line j; plane(i) is plane i.
    template <class Plane>
    static UNLADEN_INLINE auto line(Plane plane, int j) {
        if (j < 5) return masked(plane(j), mask);
        const auto low = shifted(plane(2 * j - 10), beside, 3, up);
        if (j < 7) return with_bits(low, plane(2 * j - 9), beside + 1, 2, up + 3);
        return with_bits(with_bits(low, plane(1), beside, 1, up + 3), plane(3), beside, 1, up + 4);
    }
    template <class V>
    static UNLADEN_INLINE void join(const V (&q)[8], V (&plane)[5]) {
        for (int j = 0; j < 5; ++j) plane[j] = masked(q[j], mask);
        for (int j = 5; j < 8; ++j) {
            plane[2 * j - 10] = with_bits(plane[2 * j - 10], q[j], up, 3, beside);
        }
        for (int j = 5; j < 7; ++j) {
            plane[2 * j - 9] = with_bits(plane[2 * j - 9], q[j], up + 3, 2, beside + 1);
        }
        plane[1] = with_bits(plane[1], q[7], up + 3, 1, beside);
        plane[3] = with_bits(plane[3], q[7], up + 4, 1, beside);
    }
};

// Codes of three bits: planes have lines 0 to 2 with lines 4 to 6 above them. Lines 3 and 7 are in
// pieces: two low bits and a high one.
struct ThreePlanes {
    // Line j, its bits from bit `to` on.
    template <class Plane>
    static UNLADEN_INLINE auto line(Plane plane, int j, int to = 0) {
        if (j % 4 < 3) return shifted(plane(j % 4), j < 4 ? 0 : 3, 3, to);
        const auto high = shifted(plane(1), j < 4 ? 6 : 7, 1, to + 2);
        return with_bits(high, plane(j < 4 ? 0 : 2), 6, 2, to);
    }
    template <class V>
    static UNLADEN_INLINE void join(const V (&q)[8], V (&plane)[3]) {
        for (int j = 0; j < 3; ++j) plane[j] = with_bits(q[j], q[4 + j], 0, 3, 3);
        plane[0] = with_bits(plane[0], q[3], 0, 2, 6);
        plane[1] = with_bits(with_bits(plane[1], q[3], 2, 1, 6), q[7], 2, 1, 7);
        plane[2] = with_bits(plane[2], q[7], 0, 2, 6);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
