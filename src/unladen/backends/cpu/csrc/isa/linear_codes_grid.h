// Codes<T> of the formats with grids, and of ternary ones.
#pragma once

#include "backends/cpu/csrc/isa/linear_codes.h"

namespace unladen::cpu::UNLADEN_ISA {

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
        uint64_t eights[4];
        if constexpr (requires { T::signs(b, s); }) {
            for (int g = 0; g < 4; ++g) eights[g] = T::entry(b, 4 * s + g);
            return Bytes32::load(eights).negated(T::signs(b, s));
        }
        for (int g = 0; g < 4; ++g) eights[g] = T::eight(b, 4 * s + g);
        return Bytes32::load(eights);
    }
};

struct TernaryCodes {
    static constexpr int bias = 1, sub = 32;
    static constexpr bool has_min = false, is_signed = false;
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

template <>
struct Codes<TQ1_0> : TernaryCodes {
    static constexpr int max_code = 2;
    using TernaryCodes::TernaryCodes;
    float d() const { return bits::half(b + 52); }
    Bytes32 codes(int s) const {
        if (s < 5) {
            Bytes32 digits = Bytes32::load(b);
            for (int k = 0; k < s; ++k) digits = digits.times_3();
            return digits.first_thirds();
        }
        constexpr uint8_t power[] = {1, 3, 9, 27, 81};
        const int k = 2 * (s - 5);
        uint8_t digits[32];
        for (int i = 0; i < 16; ++i) {
            digits[i] = uint8_t(b[32 + i] * power[k]);
            digits[16 + i] = s < 7 ? uint8_t(b[32 + i] * power[k + 1])
                                   : uint8_t(b[48 + i % 4] * power[i / 4]);
        }
        return Bytes32::load(digits).first_thirds();
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
