// The IQ formats with grids: eight weights at a time are eight small integers, the bytes of one
// uint64, times scales.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"
#include "backends/cpu/csrc/isa/formats/tables.h"

namespace unladen::cpu::UNLADEN_ISA {

namespace bits {

// Two entries of four as one of eight.
inline uint64_t join(uint32_t first, uint32_t second) { return first | uint64_t(second) << 32; }

// The nibbles of x as bytes, the lowest first.
inline uint64_t spread_nibbles(uint32_t x) {
    uint64_t v = (x | uint64_t(x) << 16) & 0x0000ffff0000ffff;
    v = (v | v << 8) & 0x00ff00ff00ff00ff;
    return (v | v << 4) & 15 * ones;
}

// Four times eight signs, from four indices of 7 bits each.
inline uint32_t signs_of(uint32_t indices) {
    uint32_t signs = 0;
    for (int g = 0; g < 4; ++g) {
        signs |= uint32_t(quants::ksigns_iq2xs[indices >> 7 * g & 127]) << 8 * g;
    }
    return signs;
}

}  // namespace bits

// w[i] = unit * d * scale[i / sub] * code[i]. T has `unit`; `sub`, 16 or 32; d(block);
// scales(block, half), eight scales in the bytes of a uint64, those of one half if sub is 16; and
// eight(block, g) for g < 32, eight codes as signed bytes.
template <class T>
struct Grid {
    static constexpr int block_size = 256;
    static constexpr bool is_looked_up = true;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = T::unit * T::d(block);
        uint64_t scales = 0;
        for (int g = 0; g < 32; ++g, y += 8) {
            if (g % T::sub == 0) scales = T::scales(block, g / T::sub);
            const float scale = d * float(scales >> 8 * (8 * g / T::sub % 8) & 255);
            bits::each(y, T::eight(block, g), [=](auto w) { return scale * w; });
        }
    }
    static inline float d(const uint8_t *block) { return bits::half(block); }
};

// Grids with entries entry(block, g) that are positive and at most max_code, and with separate
// signs: signs(block, s) has 32 of them as bits.
template <class T>
struct SignedGrid : Grid<T> {
    static inline uint64_t eight(const uint8_t *block, int g) {
        const uint64_t minus = bits::spread_bits(uint8_t(T::signs(block, g / 4) >> 8 * (g % 4)));
        return (T::entry(block, g) ^ minus * 0xff) + minus;  // carries stay inside bytes
    }
};

// Grids with entries of -1, 0 and 1, plus 1/8 or, if is_down(block, g), minus 1/8. Codes are 8
// times these.
template <class T>
struct ShiftedGrid : Grid<T> {
    static inline uint64_t eight(const uint8_t *block, int g) {
        using bits::ones;
        const uint64_t high = 0x80 * ones;  // keeps carries inside bytes
        const uint64_t eights = (T::entry(block, g) << 3 & 0xf8 * ones) ^ high;
        return (T::is_down(block, g) ? eights - ones : eights + ones) ^ high;
    }
    static inline uint64_t shift(const uint8_t *block, int g) {
        return T::is_down(block, g) ? ~uint64_t(0) : bits::ones;
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
