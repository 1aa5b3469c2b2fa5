// The searches for scales: least squares over a range of first guesses, with the guesses, weights
// and orders of summation of llama.cpp's ggml-quants.c.
#pragma once

#include "backends/cpu/csrc/quantize/tile.h"

namespace unladen::cpu::UNLADEN_ISA {

// A run of smaller weights counts as zeros.
inline constexpr float negligible = 1e-15f;

// Guesses of w = scale * q + low: the largest q is taken to be top + first + step * k for k up to
// `last`. The error is the sum of w * diff^2 or, `absolute`, of w * |diff|.
struct Guesses {
    float first, step;
    int last;
    bool absolute = false;
};

// x[i] = scale * q[i] - min for q in 0 .. top and min >= 0, i < n; for `count` consecutive runs,
// which are computed together so that no sum waits for itself. Each guess starts from the result of
// the one before. q = clamp(nearest(inverse * (x[i] - low))).
template <int n, int top, int count>
struct OffsetFit {
    vec scale[count], min[count], inverse[count], low[count];

    // Both are [count][n].
    OffsetFit(const vec *x, const vec *w, const Guesses &guesses) : x(x), w(w) {
        for (int r = 0; r < count; ++r) begin(r, guesses.absolute);
        for (int k = 0; k <= guesses.last; ++k)
            improve(guesses.first + guesses.step * float(k) + float(top), guesses.absolute);
        for (int r = 0; r < count; ++r) {
            // All weights of a run without a range are its minimum.
            const ivec flat = range[r] == 0.0f;
            scale[r] = choose(flat, vec{}, scale[r]);
            inverse[r] = choose(flat, vec{}, inverse[r]);
            min[r] = -min[r];
        }
    }

private:
    const vec *x, *w;
    vec high[count], range[count], sum_w[count], sum_x[count], error[count];

    static vec level(vec a) { return max(vec{}, smaller(nearest(a), splat(float(top)))); }
    static vec cost(vec diff, bool absolute) { return absolute ? magnitude(diff) : diff * diff; }

    void begin(int r, bool absolute) {
        const vec *x = this->x + n * r, *w = this->w + n * r;
        high[r] = low[r] = x[0];
        sum_w[r] = w[0];
        sum_x[r] = w[0] * x[0];
        for (int i = 1; i < n; ++i) {
            low[r] = smaller(x[i], low[r]);
            high[r] = max(x[i], high[r]);
            sum_w[r] += w[i];
            sum_x[r] += w[i] * x[i];
        }
        low[r] = min[r] = choose(low[r] > 0.0f, vec{}, low[r]);
        range[r] = high[r] - low[r];
        inverse[r] = float(top) / range[r];
        scale[r] = 1.0f / inverse[r];
        error[r] = vec{};
        for (int i = 0; i < n; ++i) {
            const vec l = level(inverse[r] * (x[i] - low[r]));
            error[r] += w[i] * cost(scale[r] * l + low[r] - x[i], absolute);
        }
    }

    // Finds the best scale and minimum for the q that follow from a largest q of `largest`.
    __attribute__((always_inline)) void improve(float largest, bool absolute) {
        vec q[n][count], guess[count], sum_l[count], sum_l2[count], sum_xl[count];
        for (int r = 0; r < count; ++r) {
            guess[r] = largest / (high[r] - min[r]);
            sum_l[r] = sum_l2[r] = sum_xl[r] = vec{};
        }
        for (int i = 0; i < n; ++i) {
#pragma GCC unroll 4
            for (int r = 0; r < count; ++r) {
                const vec xi = x[n * r + i], l = level(guess[r] * (xi - min[r]));
                const vec wl = w[n * r + i] * l;
                sum_l[r] += wl;
                sum_l2[r] += wl * l;
                sum_xl[r] += wl * xi;
                q[i][r] = l;
            }
        }
        vec scales[count], mins[count], errors[count];
        ivec better[count];
        for (int r = 0; r < count; ++r) {
            const vec spread = sum_w[r] * sum_l2[r] - sum_l[r] * sum_l[r];
            scales[r] = (sum_w[r] * sum_xl[r] - sum_x[r] * sum_l[r]) / spread;
            mins[r] = (sum_l2[r] * sum_x[r] - sum_l[r] * sum_xl[r]) / spread;
            const ivec above = mins[r] > 0.0f;
            mins[r] = choose(above, vec{}, mins[r]);
            scales[r] = choose(above, sum_xl[r] / sum_l2[r], scales[r]);
            errors[r] = vec{};
            better[r] = spread > 0.0f;
        }
        for (int i = 0; i < n; ++i) {
#pragma GCC unroll 4
            for (int r = 0; r < count; ++r) {
                const vec diff = scales[r] * q[i][r] + mins[r] - x[n * r + i];
                errors[r] += w[n * r + i] * cost(diff, absolute);
            }
        }
        for (int r = 0; r < count; ++r) {
            better[r] &= errors[r] < error[r];
            error[r] = choose(better[r], errors[r], error[r]);
            inverse[r] = choose(better[r], guess[r], inverse[r]);
            low[r] = choose(better[r], min[r], low[r]);
            scale[r] = choose(better[r], scales[r], scale[r]);
            min[r] = choose(better[r], mins[r], min[r]);
        }
    }
};

// x[i] = scale * q[i] for q out of a codebook, i < n: the largest (sum w x q)^2 / sum w q^2.
//
// A codebook has `nearest_of`, the q next to a number; `weigh_q_first` says in which order the
// three factors of w x q are multiplied.
template <int n, class Codebook>
struct ScaleFit {
    vec scale, inverse;

    // q = nearest_of(inverse * x), first with `inverse` itself, then with tries[k] / top.
    ScaleFit(const vec *x, const vec *w, vec top, vec inverse, const float *tries, int n_tries)
        : scale{}, inverse{}, x(x), w(w) {
        attempt<1>(&inverse, true);
        int k = 0;
        for (; k + 3 <= n_tries; k += 3) {
            const vec inverses[] = {tries[k] / top, tries[k + 1] / top, tries[k + 2] / top};
            attempt<3>(inverses);
        }
        for (; k < n_tries; ++k) {
            const vec last = tries[k] / top;
            attempt<1>(&last);
        }
    }

private:
    const vec *x, *w;
    vec best = vec{};

    template <int count>
    __attribute__((always_inline)) void attempt(const vec *inverses, bool first = false) {
        vec sum_xq[count], sum_q2[count];
        for (int g = 0; g < count; ++g) sum_xq[g] = sum_q2[g] = vec{};
        for (int i = 0; i < n; ++i) {
#pragma GCC unroll 3
            for (int g = 0; g < count; ++g) {
                const vec q = Codebook::nearest_of(inverses[g] * x[i]), wq = w[i] * q;
                sum_xq[g] += Codebook::weigh_q_first ? wq * x[i] : w[i] * x[i] * q;
                sum_q2[g] += wq * q;
            }
        }
        for (int g = 0; g < count; ++g) {
            ivec better = sum_q2[g] > 0.0f;
            if (!first) better &= sum_xq[g] * sum_xq[g] > best * sum_q2[g];
            const vec found = sum_xq[g] / sum_q2[g];
            scale = choose(better, found, scale);
            best = choose(better, found * sum_xq[g], best);
            inverse = first ? inverses[g] : choose(better, inverses[g], inverse);
        }
    }
};

// The whole numbers from -top to top - 1.
template <int top>
struct WholeCodes {
    static constexpr bool weigh_q_first = false;
    static vec nearest_of(vec a) {
        return max(splat(float(-top)), smaller(nearest(a), splat(float(top - 1))));
    }
};

// The same for whole numbers, with the guesses -(top + k / 10), k from -9 to 9.
template <int n, int top>
struct WholeFit {
    vec scale;

    WholeFit(const vec *x, const vec *w) : x(x) {
        float tries[18];
        for (int k = 0; k < 18; ++k)
            tries[k] = -(float(top) + 0.1f * float(k < 9 ? k - 9 : k - 8));
        const vec largest = peak(x, n);
        const ScaleFit<n, WholeCodes<top>> fit(x, w, largest, float(-top) / largest, tries, 18);
        nothing = magnitude(largest) < negligible;
        scale = choose(nothing, vec{}, fit.scale);
        inverse = fit.inverse;
    }

    // q[i] + top; 0 for a run of zeros.
    ivec code(int i) const {
        return to_ivec(WholeCodes<top>::nearest_of(inverse * x[i]) + float(top)) & ~nothing;
    }

private:
    const vec *x;
    vec inverse;
    ivec nothing;
};

// x[i] = scale * q[i], q in low .. high: changes one q at a time as long as that helps, at most
// five rounds; for `count` consecutive runs of n together. `strict`: q isn't changed if the other
// weights' part of sum w q^2 isn't positive.
template <int n, int count, int low, int high, bool strict>
static inline void refine(const vec *x, const vec *w, ivec *q, vec *scale) {
    vec sum_xq[count] = {}, sum_q2[count] = {};
    for (int i = 0; i < n * count; ++i) {
        const vec l = to_vec(q[i]);
        sum_xq[i / n] += w[i] * x[i] * l;
        sum_q2[i / n] += w[i] * l * l;
    }
    for (int round = 0; round < 5; ++round) {
        ivec changed = {};
        for (int i = 0; i < n; ++i) {
#pragma GCC unroll 4
            for (int r = 0; r < count; ++r) {
                const int at = n * r + i;
                const vec wx = w[at] * x[at], l = to_vec(q[at]);
                vec rest_xq = sum_xq[r] - wx * l, rest_q2 = sum_q2[r] - w[at] * l * l;
                ivec apt = rest_xq > 0.0f;
                if (strict) apt &= rest_q2 > 0.0f;
                const ivec other = clamp(nearest_int(x[at] * rest_q2 / rest_xq), low, high);
                const vec o = to_vec(other);
                rest_xq += wx * o;
                rest_q2 += w[at] * o * o;
                apt &= (other != q[at]) & (rest_q2 > 0.0f) &
                       (rest_xq * rest_xq * sum_q2[r] > sum_xq[r] * sum_xq[r] * rest_q2);
                q[at] = choose(apt, other, q[at]);
                sum_xq[r] = choose(apt, rest_xq, sum_xq[r]);
                sum_q2[r] = choose(apt, rest_q2, sum_q2[r]);
                changed |= apt;
            }
        }
        if (!any(changed)) break;
    }
    for (int r = 0; r < count; ++r)
        scale[r] = choose(sum_q2[r] > 0.0f, sum_xq[r] / sum_q2[r], vec{});
}

// x[i] = result * q[i], x >= 0, q in 0 .. top.
template <int n, int top>
static inline vec fit_positive(const vec *x, const vec *w, ivec *q) {
    vec largest = vec{};
    for (int i = 0; i < n; ++i) largest = max(x[i], largest);
    vec inverse = float(top) / largest, error = vec{};
    const vec first = inverse;
    for (int k = -4; k <= 4; ++k) {
        // The first guess has no offset; the others must be better.
        const int step = k == -4 ? 0 : k <= 0 ? k - 1 : k;
        const vec guess = step ? (0.1f * float(step) + float(top)) / largest : first;
        const vec scale = 1.0f / guess;
        vec sum = vec{};
        for (int i = 0; i < n; ++i) {
            vec l = nearest(guess * x[i]);
            if (step) l = smaller(l, splat(float(top)));
            const vec diff = x[i] - scale * l;
            sum += w[i] * diff * diff;
        }
        const ivec better = step ? sum < error : ivec{} - 1;
        error = choose(better, sum, error);
        inverse = choose(better, guess, inverse);
    }
    for (int i = 0; i < n; ++i) q[i] = to_ivec(smaller(nearest(inverse * x[i]), splat(float(top))));
    vec scale;
    refine<n, 1, 0, top, true>(x, w, q, &scale);
    const ivec nothing = largest < negligible;
    for (int i = 0; i < n; ++i) q[i] &= ~nothing;
    return choose(nothing, vec{}, scale);
}

}  // namespace unladen::cpu::UNLADEN_ISA
