// Products of dealt weights below AVX-512. A line holds four codes of each of sixteen rows; a level
// says whether they must be unsigned (lines_are_unsigned), how eight rows of 32 bytes are dealt
// into halves of eight lines or pairs of words (deal), and float16 of eight rows, `stride` apart,
// into float32 (deal_halves), how lines meet n columns of a panel (LineSums<n>), and what signed
// codes become where they must be unsigned (Flips).
#pragma once

#include "backends/cpu/csrc/isa/contract/level.h"

namespace unladen::cpu::UNLADEN_ISA {

using Line = uint8_t[64];

// Two words of each of sixteen rows, in the place of a line.
struct alignas(64) Pairs {
    int16_t of[16][2];
};

template <int n_lines>
struct Flips;

// Where a level deals the codes of T before it decodes them: lines(q, half, p, stride) makes the
// halves of a block's lines that eight rows fill, the first one's block at p.
template <class T>
struct DealtFirst {};

}  // namespace unladen::cpu::UNLADEN_ISA

#if defined(__AVX2__)
#include "backends/cpu/csrc/isa/products/lines_avx2.h"
#elif defined(UNLADEN_NEON)
#include "backends/cpu/csrc/isa/products/lines_neon.h"
#endif
