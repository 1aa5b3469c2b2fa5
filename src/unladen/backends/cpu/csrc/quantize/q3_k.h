// Weights as Q3_K.
#pragma once

#include "backends/cpu/csrc/quantize/runs.h"
#include "backends/cpu/csrc/isa/formats/q3_k.h"

namespace unladen::cpu::UNLADEN_ISA {

template <>
struct Quantizer<Q3_K> {
    static void quantize(Tile &t) {
        vec scale[16], sum_w[16];
        ivec code[16];
        bvec q[256];
        const vec square = t.importance ? 2.0f * sum_of_squares(t.x, 256) / 256.0f : vec{};
        for (int s = 0; s < 16 && t.importance; ++s) {
            vec w[16];
            t.weigh(w, 16 * s, 16, square);
            scale[s] = whole_run(t.x + 16 * s, w, sum_w + s, q + 16 * s);
        }
        for (int s = 0; s < 16 && !t.importance; s += 4)
            refine_runs(t.x + 16 * s, q + 16 * s, scale + s);
        const vec d = t.half(108, t.importance ? fit_codes(scale, sum_w, code)
                                               : codes_by_largest(scale, code));
        for (int s = 0; s < 16; ++s) scale[s] = d * to_vec(code[s] - 32);
        round_runs<4>(t.x, scale, q);
        for (int s = 0; s < 8; ++s) t.byte(96 + s, (code[s] & 15) | (code[s + 8] & 15) << 4);
        for (int s = 0; s < 4; ++s)
            t.byte(104 + s, code[s] >> 4 | code[s + 4] >> 4 << 2 | code[s + 8] >> 4 << 4 |
                                code[s + 12] >> 4 << 6);
        t.pack<256, 2, 32>(q, 0, 32);
        t.pack<256, 1, 32>(q, 2, 0);
    }

private:
    static vec whole_run(const vec *x, const vec *w, vec *sum_w, bvec *q) {
        *sum_w = vec{};
        for (int i = 0; i < 16; ++i) *sum_w += w[i];
        const WholeFit<16, 4> fit(x, w);
        for (int i = 0; i < 16; ++i) q[i] = to_bytes(fit.code(i));
        return fit.scale;
    }

    // Without importance: from the number of largest magnitude on, one q at a time. Four runs.
    static void refine_runs(const vec *x, bvec *q, vec *scale) {
        vec w[64];
        ivec l[64], nothing[4];
        for (int r = 0; r < 4; ++r) {
            const vec largest = peak(x + 16 * r, 16), inverse = -4.0f / largest;
            nothing[r] = magnitude(largest) < negligible;
            for (int i = 16 * r; i < 16 * r + 16; ++i) {
                w[i] = x[i] * x[i];
                l[i] = clamp(nearest_int(inverse * x[i]), -4, 3);
            }
        }
        refine<16, 4, -4, 3, false>(x, w, l, scale);
        for (int i = 0; i < 64; ++i) q[i] = to_bytes((l[i] + 4) & ~nothing[i / 16]);
        for (int r = 0; r < 4; ++r) scale[r] = choose(nothing[r], vec{}, scale[r]);
    }

    static vec fit_codes(const vec *scale, const vec *sum_w, ivec *code) {
        const WholeFit<16, 32> fit(scale, sum_w);
        for (int s = 0; s < 16; ++s) code[s] = fit.code(s);
        return fit.scale;
    }

    static vec codes_by_largest(const vec *scale, ivec *code) {
        const vec largest = peak(scale, 16), inverse = -32.0f / largest;
        const ivec nothing = largest == 0.0f;
        for (int s = 0; s < 16; ++s)
            code[s] = (clamp(nearest_int(inverse * scale[s]), -32, 31) + 32) & ~nothing;
        return choose(nothing, vec{}, 1.0f / inverse);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
