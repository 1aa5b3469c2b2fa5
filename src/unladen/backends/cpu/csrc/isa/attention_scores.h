// From a row's products with a tile of keys to the softmax's exponentials.
#pragma once

#include "backends/cpu/csrc/isa/attention_tile.h"

namespace unladen::cpu::UNLADEN_ISA {

static inline int least(int a, int b) { return a < b ? a : b; }
static inline int most(int a, int b) { return a > b ? a : b; }

// Keys [first, last) of a tile.
struct Span {
    int first, last;
    bool empty() const { return first >= last; }
};

// Everything but the scale, which the queries already hold. `distance`: from the tile's first key
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
        for (int i = 0; i < tile_keys; i++) {
            const int far = distance - i;
            s[i] += slope[0] * (float)(far < 0 ? -far : far);
        }
    }
}

// A step of a row's online softmax: s becomes e^(s - m), zero outside `seen`, for the m of the keys
// so far. Returns what older sums must be multiplied by.
static inline float soften(float *s, Span seen, float &m, float &total) {
    for (int i = 0; i < seen.first; i++) s[i] = -__builtin_inff();
    for (int i = seen.last; i < tile_keys; i++) s[i] = -__builtin_inff();
    vec top = splat(m);
    for (int i = 0; i < tile_keys; i += lanes) top = max(top, load(s + i));
    const float now = largest(top);
    vec sums = {};
    for (int i = 0; i < tile_keys; i += lanes) {
        const vec p = exp(load(s + i) - now);
        store(s + i, p);
        sums += p;
    }
    const float keep = now == m ? 1.0f : exp(splat(m - now))[0];
    total = total * keep + sum(sums);
    m = now;
    return keep;
}

}  // namespace unladen::cpu::UNLADEN_ISA
