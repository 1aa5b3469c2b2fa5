// Codes<T> of ternary formats, and of those with grids: where AVX2 is, from registers.
#pragma once

#include "backends/cpu/csrc/isa/linear_codes.h"

namespace unladen::cpu::UNLADEN_ISA {

struct TernaryCodes {
    static constexpr int bias = 1, sub = 32;
    static constexpr bool has_min = false, is_signed = false, is_unscaled = true;
    const uint8_t *b;
    explicit TernaryCodes(const uint8_t *block) : b(block) {}
    Words16 scales() const { return Words16::twice(bits::ones); }
};

template <>
struct Codes<TQ2_0> : TernaryCodes {
    static constexpr int max_code = 3;
    using TernaryCodes::TernaryCodes;
    float d() const { return bits::half(b + 64); }
    Bytes32 codes(int s) const { return two_bits(b, s); }
};

}  // namespace unladen::cpu::UNLADEN_ISA

#if defined(__AVX2__)
#include "backends/cpu/csrc/isa/linear_codes_grid_avx2.h"
#else
#include "backends/cpu/csrc/isa/linear_codes_grid_plain.h"
#endif
