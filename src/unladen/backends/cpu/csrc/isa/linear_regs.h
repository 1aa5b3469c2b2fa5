// Small vectors for the integer dot products below AVX-512: Bytes32, 32 codes; Words16, 16 words;
// Sums, the products of 32 codes and activations, added up to a level's own number of lanes;
// SmallSums, the same of ternary codes; Scales, what multiplies the sums of 16; Total, the lanes as
// float32.
#pragma once

#include "backends/cpu/csrc/isa/level.h"

#if defined(__AVX2__)
#include "backends/cpu/csrc/isa/linear_regs_avx2.h"
#elif defined(UNLADEN_NEON)
#include "backends/cpu/csrc/isa/linear_regs_neon.h"
#else
#include "backends/cpu/csrc/isa/linear_regs_plain.h"
#endif
