// The ternary formats: codes of 0, 1 and 2, with one scale for each block.
#pragma once

#include "backends/cpu/csrc/isa/formats/int8.h"

#if defined(UNLADEN_AVX512)
#include "backends/cpu/csrc/isa/formats/grid512.h"
#else

namespace unladen::cpu::UNLADEN_ISA {

struct TernaryCodes {
    static constexpr int bias = 1, sub = 32;
    static constexpr bool has_min = false, is_signed = false, is_unscaled = true;
    const uint8_t *b;
    explicit TernaryCodes(const uint8_t *block) : b(block) {}
    Words16 scales() const { return Words16::twice(bits::ones); }
};

}  // namespace unladen::cpu::UNLADEN_ISA

#endif
