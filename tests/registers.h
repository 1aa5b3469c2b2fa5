// Accesses a vector register as an array of its elements, for emulated instructions.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace unladen::emulated {

// The register as n elements of type T.
template <class T, class V>
struct Of {
    static constexpr int n = sizeof(V) / sizeof(T);
    T at[n];
    Of() = default;
    Of(V v) { std::memcpy(at, &v, sizeof v); }
    operator V() const {
        V v;
        std::memcpy(&v, at, sizeof v);
        return v;
    }
};

// Elements of two registers, chosen by their numbers.
template <class T, class V>
inline V choose(V a, V index, V b) {
    const Of<T, V> first(a), i(index), second(b);
    Of<T, V> to;
    for (int k = 0; k < to.n; ++k)
        to.at[k] = (i.at[k] & to.n ? second : first).at[i.at[k] & (to.n - 1)];
    return to;
}

}  // namespace unladen::emulated
