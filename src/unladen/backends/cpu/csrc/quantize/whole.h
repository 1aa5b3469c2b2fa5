// Common code of the formats of 32 weights with whole numbers.
#pragma once

#include "backends/cpu/csrc/quantize/search.h"

namespace unladen::cpu::UNLADEN_ISA {

// The weights of errors of a block for a search.
static inline void weigh_block(const Tile &t, vec *w) { t.weigh(w, 0, 32, t.row_square); }

// The nearest whole number; halves are rounded away from zero.
static inline ivec nearest_away(vec a) {
    const vec almost_half = splat(0x1.fffffep-2f);
    const ivec sign = (ivec)a & (ivec)splat(-0.0f);
    return to_ivec(a + (vec)((ivec)almost_half | sign));
}

// w = d * (q - zero), q in 0 .. 2 * zero - 1; d is stored at byte 0.
template <int zero>
static inline void code_whole(Tile &t, bvec *q) {
    if (t.importance) {
        vec w[32];
        weigh_block(t, w);
        const WholeFit<32, zero> fit(t.x, w);
        t.half(0, fit.scale);
        for (int i = 0; i < 32; ++i) q[i] = to_bytes(fit.code(i));
        return;
    }
    const vec d = peak(t.x, 32) / float(-zero), inverse = reciprocal(d);
    t.half(0, d);
    for (int i = 0; i < 32; ++i) {
        const vec target = t.x[i] * inverse + (float(zero) + 0.5f);
        q[i] = to_bytes(to_ivec(smaller(target, splat(float(2 * zero - 1)))));
    }
}

// w = d * q + m, q in 0 .. top; d is stored at byte 0, m at byte 2.
template <int top>
static inline void code_offset(Tile &t, bvec *q) {
    if (t.importance) {
        vec w[32];
        weigh_block(t, w);
        const OffsetFit<32, top, 1> fit(t.x, w, {-0.9f, 0.05f, 36});
        t.half(0, fit.scale[0]);
        t.half(2, -fit.min[0]);
        for (int i = 0; i < 32; ++i)
            q[i] = to_bytes(clamp(nearest_int(fit.inverse[0] * (t.x[i] - fit.low[0])), 0, top));
        return;
    }
    vec low = t.x[0], high = low;
    for (int i = 1; i < 32; ++i) {
        low = smaller(t.x[i], low);
        high = max(t.x[i], high);
    }
    const vec d = (high - low) / float(top), inverse = reciprocal(d);
    t.half(0, d);
    t.half(2, low);
    for (int i = 0; i < 32; ++i) {
        const vec target = (t.x[i] - low) * inverse + 0.5f;
        q[i] = to_bytes(to_ivec(smaller(target, splat(float(top)))));
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
