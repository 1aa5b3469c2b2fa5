// Small vectors for the integer dot products; with AVX-512 its registers as they are. Below that:
// Bytes32, 32 codes; Words16, 16 words;
// Sums, the products of 32 codes and activations, added up to a level's own number of lanes;
// SmallSums, the same of ternary codes; Scales, what multiplies the sums of 16; Total, the lanes as
// float32.
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
