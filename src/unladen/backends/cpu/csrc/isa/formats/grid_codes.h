// Codes of the formats with grids, for integer products.
#pragma once

#include "backends/cpu/csrc/isa/formats/grid.h"
#include "backends/cpu/csrc/isa/formats/int8.h"

#if defined(UNLADEN_AVX512)
#include "backends/cpu/csrc/isa/formats/grid_codes512.h"
#elif defined(UNLADEN_AVX2)
#include "backends/cpu/csrc/isa/formats/grid_codes_avx2.h"
#else

namespace unladen::cpu::UNLADEN_ISA {

// Codes of any format with a grid, 32 weights at a time.
template <class T>
    requires(T::unit > 0)
struct Codes<T> {
    static constexpr int bias = 0, max_code = T::max_code, sub = T::sub;
    static constexpr bool has_min = false, is_signed = true;
    const uint8_t *b;
    explicit Codes(const uint8_t *block) : b(block) {}
    float d() const { return T::unit * T::d(b); }
    Words16 scales() const {
        if constexpr (sub == 32) return Words16::twice(T::scales(b, 0));
        return Words16::of_signed(T::scales(b, 0), T::scales(b, 1));
    }
    Bytes32 codes(int s) const {
        const int g = 4 * s;
        const Bytes32 entries = Bytes32::of(T::entry(b, g), T::entry(b, g + 1), T::entry(b, g + 2),
                                            T::entry(b, g + 3));
        if constexpr (requires { T::signs(b, s); }) {
            return entries.negated(T::signs(b, s));
        } else {
            const Bytes32 eights = entries.up(3).field(0, 0xf8);
            return eights.plus(Bytes32::of(T::shift(b, g), T::shift(b, g + 1), T::shift(b, g + 2),
                                           T::shift(b, g + 3)));
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA

#endif
