// The instructions of VBMI and GFNI that kernels use, in plain C++ as their maker defines them: the
// kernels of level "vbmi" compiled with this run on any processor with AVX-512. Included before
// everything else.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace unladen::emulated {

template <class V>
struct Bytes {
    uint8_t b[sizeof(V)];
    Bytes() = default;
    Bytes(V v) { std::memcpy(b, &v, sizeof v); }
    operator V() const {
        V v;
        std::memcpy(&v, b, sizeof v);
        return v;
    }
    uint64_t lane(int byte) const {
        uint64_t lane;
        std::memcpy(&lane, b + byte / 8 * 8, sizeof lane);
        return lane;
    }
};

template <class V>
V permutex2var(V first, V index, V second) {
    const Bytes<V> a(first), i(index), c(second);
    constexpr int n = sizeof(V);
    Bytes<V> to;
    for (int k = 0; k < n; ++k) to.b[k] = (i.b[k] & n ? c : a).b[i.b[k] % n];
    return to;
}

template <class V>
V permutexvar(V index, V from) {
    return permutex2var(from, index, from);
}

template <class V>
V multishift(V control, V from) {
    const Bytes<V> c(control), a(from);
    Bytes<V> to;
    for (int k = 0; k < int(sizeof(V)); ++k) {
        const uint64_t lane = a.lane(k);
        const int n = c.b[k] & 63;
        to.b[k] = uint8_t(n ? lane >> n | lane << (64 - n) : lane);
    }
    return to;
}

template <class V>
V affine(V from, V matrix) {
    const Bytes<V> a(from), m(matrix);
    Bytes<V> to;
    for (int k = 0; k < int(sizeof(V)); ++k) {
        to.b[k] = 0;
        for (int bit = 0; bit < 8; ++bit) {
            const int row = int(m.lane(k) >> 8 * (7 - bit) & 255);
            to.b[k] = uint8_t(to.b[k] | __builtin_parity(unsigned(row & a.b[k])) << bit);
        }
    }
    return to;
}

}  // namespace unladen::emulated

#define _mm512_permutex2var_epi8(a, i, b) unladen::emulated::permutex2var<__m512i>(a, i, b)
#define _mm512_permutexvar_epi8(i, a) unladen::emulated::permutexvar<__m512i>(i, a)
#define _mm512_multishift_epi64_epi8(c, a) unladen::emulated::multishift<__m512i>(c, a)
#define _mm256_multishift_epi64_epi8(c, a) unladen::emulated::multishift<__m256i>(c, a)
#define _mm256_gf2p8affine_epi64_epi8(a, m, b) unladen::emulated::affine<__m256i>(a, m)
#define __AVX512VBMI__ 1
#define __GFNI__ 1
