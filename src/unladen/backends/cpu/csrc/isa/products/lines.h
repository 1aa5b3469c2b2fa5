// Products of dealt weights below AVX-512. A line holds four codes of each of sixteen rows. A level
// defines:
// * lines_are_unsigned: whether the codes of lines must be unsigned;
// * deal: deals eight rows of 32 bytes into halves of eight lines or of pairs of words;
// * deal_halves: deals float16 of eight rows, `stride` apart, into float32;
// * LineSums<n>: the sums of lines times n columns of a panel;
// * Flips: signed codes as unsigned ones.
#pragma once

#include "backends/cpu/csrc/isa/contract/level.h"

namespace unladen::cpu::UNLADEN_ISA {

using Line = uint8_t[64];

// Two words of each of sixteen rows, as large as a line.
struct alignas(64) Pairs {
    int16_t of[16][2];
};

template <int n_lines>
struct Flips;

// Specialized for formats whose codes a level deals before it decodes them: lines(q, half, p,
// stride) makes the halves of a block's lines that belong to eight rows, from the block of the
// first row at p.
template <class T>
struct DealtFirst {};

}  // namespace unladen::cpu::UNLADEN_ISA

#if defined(__AVX2__)
#include "backends/cpu/csrc/isa/products/lines_avx2.h"
#elif defined(UNLADEN_NEON)
#include "backends/cpu/csrc/isa/products/lines_neon.h"
#endif
