// Rows whose codes are in planes once they are interleaved: lines of codes with bits of other lines
// above them. Decoding takes fewer instructions, and every byte is read once and in order. On Zen 4
// Q3_K, Q5_K and Q6_K are read from L2 1.53, 1.30 and 1.28 times as fast, from memory 1.25, 1.14
// and 1.07 times.
#pragma once

#include "backends/cpu/csrc/isa/formats/lanes512.h"
#include "backends/cpu/csrc/isa/formats/planes.h"

namespace unladen::cpu::UNLADEN_ISA {

// Blocks of T in planes. The bytes before the codes are as in an interleaved block.
template <class T>
struct Planes : T {};

// Groups of n_lines lines of codes in n_planes planes, after the first bytes of each row.
template <int first_bytes, int lines, int planes>
struct PlanesOf {
    static constexpr int first = first_bytes, n_lines = lines, n_planes = planes;
    // Plane j of line i's group.
    static UNLADEN_INLINE __m512i plane(Interleaved w, int i, int j) {
        return w.four(first + (i / n_lines * n_planes + j) * 4);
    }
};

// Eight lines of five bits, which stand `up` bits high.
template <int first, int up>
struct FiveBits : PlanesOf<first, 8, 5> {
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        const auto plane = [=](int j) __attribute__((always_inline)) {
            return FiveBits::plane(w, i, j);
        };
        return FivePlanes<up>::line(plane, i % 8);
    }
    static UNLADEN_INLINE void join(const __m512i (&q)[8], __m512i (&plane)[5]) {
        FivePlanes<up>::join(q, plane);
    }
};

template <class T>
constexpr bool has_planes = requires { InLanes<Planes<T>>::n_planes; };

// Blocks of T as interleave_rows() writes them.
template <class T>
using Moved = Choose<has_planes<T>, Planes<T>, T>;

}  // namespace unladen::cpu::UNLADEN_ISA
