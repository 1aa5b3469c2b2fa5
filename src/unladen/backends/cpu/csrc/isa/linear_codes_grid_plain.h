// Codes<T> of the formats with grids and of TQ1_0, of 32 weights at a time.
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

template <>
struct Codes<TQ1_0> : TernaryCodes {
    static constexpr int max_code = 2;
    using TernaryCodes::TernaryCodes;
    float d() const { return bits::half(b + 52); }
    Bytes32 codes(int s) const { return fractions(s).first_thirds(); }

private:
    Bytes32 fractions(int s) const {
        if (s < 5) {
            constexpr uint64_t power[] = {1, 3, 9, 27, 81};
            const uint64_t p = power[s] * bits::ones;
            return Bytes32::load(b).times(Bytes32::of(p, p, p, p));
        }
        constexpr uint64_t ones = bits::ones, last = ones & 0xffffffff;
        const auto first = bits::load<uint64_t>(b + 32), second = bits::load<uint64_t>(b + 40);
        if (s < 7) {
            const uint64_t p = s == 5 ? ones : 9 * ones;
            return Bytes32::of(first, second, first, second)
                .times(Bytes32::of(p, p, 3 * p, 3 * p));
        }
        const auto four = bits::load<uint32_t>(b + 48) * uint64_t(0x0000000100000001);
        return Bytes32::of(first, second, four, four)
            .times(Bytes32::of(81 * ones, 81 * ones, last | (last * 3) << 32,
                               last * 9 | (last * 27) << 32));
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
