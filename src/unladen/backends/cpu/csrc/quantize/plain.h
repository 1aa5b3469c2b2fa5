// Weights as one number each.
#pragma once

#include <cstring>

#include "backends/cpu/csrc/quantize/tile.h"
#include "backends/cpu/csrc/isa/formats/plain.h"

namespace unladen::cpu::UNLADEN_ISA {

// `convert` stores a vector of weights, ties to even; it returns which of them are too large.

template <>
struct Quantizer<F32> {
    static ivec convert(uint8_t *to, vec x) {
        std::memcpy(to, &x, sizeof x);
        return ivec{};
    }
};

template <>
struct Quantizer<F16> {
    static ivec convert(uint8_t *to, vec x) {
        const ivec stored = half_bits(x);
        const wvec narrow = __builtin_convertvector(stored, wvec);
        std::memcpy(to, &narrow, sizeof narrow);
        return beyond_half(stored);
    }
};

template <>
struct Quantizer<BF16> {
    static ivec convert(uint8_t *to, vec x) {
        const ivec whole = (ivec)x, stored = (whole + 0x7fff + (whole >> 16 & 1)) >> 16;
        const wvec narrow = __builtin_convertvector(stored, wvec);
        std::memcpy(to, &narrow, sizeof narrow);
        return (stored & 0x7f80) == 0x7f80;
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
