// Emulates the VBMI and GFNI instructions that kernels use, in plain C++ by Intel's definitions.
// Kernels of level "vbmi" that are compiled with this header run on any processor with AVX-512. It
// must be included before everything else.
#pragma once

#include "registers.h"

namespace unladen::emulated {

template <class V>
using Bytes = Of<uint8_t, V>;
template <class V>
using Lanes = Of<uint64_t, V>;

template <class V>
V multishift(V control, V from) {
    const Bytes<V> c(control);
    const Lanes<V> lanes(from);
    Bytes<V> to;
    for (int k = 0; k < to.n; ++k) {
        const uint64_t lane = lanes.at[k / 8];
        const int n = c.at[k] & 63;
        to.at[k] = uint8_t(n ? lane >> n | lane << (64 - n) : lane);
    }
    return to;
}

template <class V>
V affine(V from, V matrix) {
    const Bytes<V> a(from);
    const Lanes<V> m(matrix);
    Bytes<V> to;
    for (int k = 0; k < to.n; ++k) {
        to.at[k] = 0;
        for (int bit = 0; bit < 8; ++bit) {
            const int row = int(m.at[k / 8] >> 8 * (7 - bit) & 255);
            to.at[k] = uint8_t(to.at[k] | __builtin_parity(unsigned(row & a.at[k])) << bit);
        }
    }
    return to;
}

}  // namespace unladen::emulated

#define _mm512_permutex2var_epi8(a, i, b) unladen::emulated::choose<uint8_t, __m512i>(a, i, b)
#define _mm512_permutexvar_epi8(i, a) unladen::emulated::choose<uint8_t, __m512i>(a, i, a)
#define _mm512_multishift_epi64_epi8(c, a) unladen::emulated::multishift<__m512i>(c, a)
#define _mm256_multishift_epi64_epi8(c, a) unladen::emulated::multishift<__m256i>(c, a)
#define _mm256_gf2p8affine_epi64_epi8(a, m, b) unladen::emulated::affine<__m256i>(a, m)
#define __AVX512VBMI__ 1
#define __GFNI__ 1
