// Turns a row's products with a tile of keys into the exponentials of the softmax.
#pragma once

#include "backends/cpu/csrc/isa/attention/tile.h"

namespace unladen::cpu::UNLADEN_ISA {

static inline int least(int a, int b) { return a < b ? a : b; }
static inline int most(int a, int b) { return a > b ? a : b; }

// Keys [first, last) of a tile.
struct Span {
    int first, last;
    bool empty() const { return first >= last; }
};

// Applies softcap and slopes; the queries are already scaled. `distance`: from the tile's first key
// to the row's own position.
static inline void adjust(float *s, const Scoring &scoring, int head, int distance) {
    if (scoring.softcap > 0.0f) {
        const float inverse = 1.0f / scoring.softcap;
        for (int i = 0; i < tile_keys; i += lanes) {
            store(s + i, tanh(load(s + i) * inverse) * scoring.softcap);
        }
    }
    if (scoring.slopes) {
        const vec slope = splat(-scoring.slopes[head]);
        float ahead[lanes];
        for (int i = 0; i < lanes; i++) ahead[i] = (float)(i - distance);
        const vec first = load(ahead);
        for (int i = 0; i < tile_keys; i += lanes) {
            store(s + i, fma(slope, magnitude(first + (float)i), load(s + i)));
        }
    }
}

// A row's online softmax: the score that exponentials refer to, and their sum by lanes.
struct Softmax {
    float top;
    vec total;
};

// How far a score may be above `top` before sums are rescaled for a new `top`. Weights up to e^8
// lose no precision in float32, and so rows are seldom rescaled.
inline constexpr float headroom = 8.0f;

static inline bool any_above(vec a, float bound) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)a, _mm512_set1_ps(bound), _CMP_GT_OQ) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)a, _mm256_set1_ps(bound), _CMP_GT_OQ)) != 0;
#else
    return a[0] > bound || a[1] > bound || a[2] > bound || a[3] > bound;
#endif
}

// Turns a row's scores with a tile into e^(s - top), zero outside `seen`. Returns the factor for
// older sums.
static inline float soften(float *s, Span seen, Softmax &row) {
    for (int i = 0; i < seen.first; i++) s[i] = -__builtin_inff();
    for (int i = seen.last; i < tile_keys; i++) s[i] = -__builtin_inff();
    vec top = load(s);
    for (int i = lanes; i < tile_keys; i += lanes) top = max(top, load(s + i));
    float keep = 1.0f;
    if (any_above(top, row.top + headroom)) {
        const float now = largest(top);
        keep = exp(splat(row.top - now))[0];
        row.total *= keep;
        row.top = now;
    }
    vec sums = {};
    for (int i = 0; i < tile_keys; i += lanes) {
        const vec p = exp_of_moderate(load(s + i) - row.top);
        store(s + i, p);
        sums += p;
    }
    row.total += sums;
    return keep;
}

}  // namespace unladen::cpu::UNLADEN_ISA
