// The names of enum values in Python.
#pragma once

#include <stdexcept>
#include <string>

#include "backends/cpu/csrc/cpu.h"

namespace unladen::cpu {

// Specialized for each enum that has names. `what`: what the enum lists, for errors. `all`: the
// names in the order of the values.
template <class Enum>
struct Names;

// The value called `name`. Throws std::invalid_argument.
template <class Enum>
Enum named(const std::string &name) {
    int i = 0;
    for (const char *known : Names<Enum>::all) {
        if (name == known) return static_cast<Enum>(i);
        i++;
    }
    throw std::invalid_argument("no " + std::string(Names<Enum>::what) + " is called '" + name +
                                "'");
}

template <>
struct Names<Activation> {
    static constexpr const char *what = "activation";
    static constexpr const char *all[] = {"silu",       "gelu", "gelu_erf",
                                          "gelu_quick", "relu", "relu_squared",
                                          "sigmoid",    "tanh", "softplus",
                                          "exp",        "identity"};
};

template <>
struct Names<KVType> {
    static constexpr const char *what = "cache type";
    static constexpr const char *all[] = {"f32", "f16", "q8_0"};
};

template <>
struct Names<Reading> {
    static constexpr const char *what = "way of reading";
    static constexpr const char *all[] = {"other", "zen3", "zen4", "zen5", "intel"};
};

}  // namespace unladen::cpu
