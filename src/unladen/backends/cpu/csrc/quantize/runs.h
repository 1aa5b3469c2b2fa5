// Common code of the formats of 256 weights: runs of weights get scales, scales become codes of few
// bits, and then every weight is rounded again with the scale that the code stands for.
#pragma once

#include "backends/cpu/csrc/quantize/search.h"

namespace unladen::cpu::UNLADEN_ISA {

// Lanes with a scale of zero, which can't be a divisor: q of the search is kept there.
static inline ivec lost(vec d) { return d == 0.0f; }

// Runs of n weights with a scale and a minimum: w = d * code * q - dmin * min_code.
template <int n, int top, int code_top>
struct OffsetRuns {
    static constexpr int n_runs = 256 / n;
    ivec code[n_runs], min_code[n_runs];
    bvec q[256];

    // d and dmin are stored as float16 at bytes d_at and dmin_at. Without importance the weights of
    // a run are what plain(x, weights) makes of it; with it, `spread` times the block's mean square
    // counts.
    template <class Plain>
    OffsetRuns(Tile &t, int d_at, int dmin_at, float spread, Guesses guesses, Plain plain) {
        vec scale[n_runs], min[n_runs], inverse[n_runs], low[n_runs], sum_w[n_runs];
        const vec square = t.importance ? sum_of_squares(t.x, 256) * spread / 256.0f : vec{};
        if (t.importance) guesses = {-0.9f, 0.05f, 36};
        for (int s = 0; s < n_runs; s += 2) {
            vec w[2][n];
            for (int r = 0; r < 2; ++r) {
                if (t.importance) t.weigh(w[r], n * (s + r), n, square);
                else plain(t.x + n * (s + r), w[r]);
                sum_w[s + r] = vec{};
                for (int i = 0; i < n; ++i) sum_w[s + r] += w[r][i];
            }
            const OffsetFit<n, top, 2> fit(t.x + n * s, w[0], guesses);
            for (int r = 0; r < 2; ++r) {
                scale[s + r] = fit.scale[r];
                min[s + r] = fit.min[r];
                inverse[s + r] = fit.inverse[r];
                low[s + r] = fit.low[r];
            }
        }
        const auto encode = t.importance ? fit_positive<n_runs, code_top> : by_largest;
        const vec d = t.half(d_at, encode(scale, sum_w, code));
        const vec dmin = t.half(dmin_at, encode(min, sum_w, min_code));
        for (int s = 0; s < n_runs; ++s)
            round(t.x + n * s, d * to_vec(code[s]), dmin * to_vec(min_code[s]), inverse[s], low[s],
                  q + n * s);
    }

private:
    static vec by_largest(const vec *x, const vec *, ivec *codes) {
        vec largest = {};
        for (int s = 0; s < n_runs; ++s) largest = max(x[s], largest);
        const vec inverse = choose(largest > 0.0f, float(code_top) / largest, vec{});
        for (int s = 0; s < n_runs; ++s)
            codes[s] = clamp(nearest_int(inverse * x[s]) & 255, 0, code_top);
        return largest / float(code_top);
    }

    static void round(const vec *x, vec d, vec min, vec inverse, vec low, bvec *q) {
        const ivec kept = lost(d);
        for (int i = 0; i < n; ++i) q[i] = to_bytes(clamp(nearest_int((x[i] + min) / d), 0, top));
        if (!any(kept)) return;
        for (int i = 0; i < n; ++i) {
            const ivec found = clamp(nearest_int(inverse * (x[i] - low)), 0, top);
            const bvec mask = to_bytes(kept);
            q[i] = (mask & to_bytes(found)) | (~mask & q[i]);
        }
    }
};

// Rounds runs of 16 weights to q = 0 .. 2 * top - 1, w = d[s] * (q - top); where d[s] is zero q
// stays as it is.
template <int top>
static inline void round_runs(const vec *x, const vec *d, bvec *q) {
    for (int s = 0; s < 16; ++s) {
        const bvec kept = to_bytes(lost(d[s]));
        for (int i = 16 * s; i < 16 * s + 16; ++i) {
            const bvec found = to_bytes(clamp(nearest_int(x[i] / d[s]), -top, top - 1) + top);
            q[i] = (kept & q[i]) | (~kept & found);
        }
    }
}

// The scales and minimums of Q4_K and Q5_K, read by bits::k_scale and bits::k_min.
static inline void store_k_scales(Tile &t, const ivec *code, const ivec *min_code) {
    for (int s = 0; s < 4; ++s) {
        t.byte(4 + s, code[s] | code[s + 4] >> 4 << 6);
        t.byte(8 + s, min_code[s] | min_code[s + 4] >> 4 << 6);
        t.byte(12 + s, (code[s + 4] & 15) | (min_code[s + 4] & 15) << 4);
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
