// What Python calls things.
#pragma once

#include <iterator>
#include <stdexcept>
#include <string>

#include "backends/cpu/csrc/ops/ops.h"

namespace unladen::cpu {

template <class Enum, size_t n>
Enum named(const std::string &name, const char *const (&names)[n], const char *what) {
    for (size_t i = 0; i < n; i++)
        if (name == names[i]) return static_cast<Enum>(i);
    throw std::invalid_argument("no " + std::string(what) + " is called " + name);
}

inline Activation activation_of(const std::string &name) {
    static constexpr const char *names[] = {"silu",       "gelu", "gelu_erf",
                                            "gelu_quick", "relu", "relu_squared",
                                            "sigmoid",    "tanh", "softplus",
                                            "exp",        "identity"};
    return named<Activation>(name, names, "activation");
}

inline Gating gating_of(const std::string &name) {
    static constexpr const char *names[] = {"softmax", "sigmoid", "softmax_chosen",
                                            "sqrt_softplus"};
    return named<Gating>(name, names, "gating");
}

inline KVType kv_type_of(const std::string &name) {
    static constexpr const char *names[] = {"f32", "f16", "q8_0"};
    return named<KVType>(name, names, "cache type");
}

inline WindowKind window_kind_of(const std::string &name) {
    static constexpr const char *names[] = {"sliding", "chunked", "symmetric"};
    return named<WindowKind>(name, names, "kind of window");
}

// Of Reading.
constexpr const char *reading_names[] = {"other", "zen3", "zen4", "zen5", "intel"};

}  // namespace unladen::cpu
