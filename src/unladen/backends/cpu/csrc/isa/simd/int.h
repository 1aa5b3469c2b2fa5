// Small vectors for integer dot products. Levels with AVX-512 use its registers directly. Other
// levels have:
// * Bytes32: 32 codes; Words16: 16 words;
// * Sums: the products of 32 codes and activations, summed to the level's number of lanes;
// * SmallSums: the same for ternary codes;
// * Scales: the factors of the sums of 16;
// * Total: the lanes as float32.
#pragma once

#include "backends/cpu/csrc/isa/contract/level.h"

#if defined(UNLADEN_AVX512)
#include "backends/cpu/csrc/isa/simd/int_avx512.h"
#elif defined(UNLADEN_AVX2)
#include "backends/cpu/csrc/isa/simd/int_avx2.h"
#elif defined(UNLADEN_NEON)
#include "backends/cpu/csrc/isa/simd/int_neon.h"
#else
#include "backends/cpu/csrc/isa/simd/int_plain.h"
#endif
