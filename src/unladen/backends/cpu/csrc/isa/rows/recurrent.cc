// Nodes with recurrent state. Each function computes the tokens of one sequence in order and
// updates the state in place. Sums are over rows of the state; vectors hold its columns.
#include "backends/cpu/csrc/isa/simd/float.h"

namespace unladen::cpu::UNLADEN_ISA {

namespace {

inline vec load_n(const float *p, int n) { return n == lanes ? load(p) : load_first(p, n); }

inline void store_n(float *p, vec v, int n) {
    if (n == lanes) {
        store(p, v);
    } else {
        store_first(p, v, n);
    }
}

inline float exp1(float x) { return exp(splat(x))[0]; }

inline void exp_rows(float *y, const float *x, int n) {
    for (int i = 0; i < n; i += lanes) {
        const int count = n - i < lanes ? n - i : lanes;
        store_n(y + i, exp(load_n(x + i, count)), count);
    }
}

// Calls body for all columns: `wide` vectors at a time, then one at a time, the last one shorter.
constexpr int wide = 4;

template <int n>
struct Vectors {
    static constexpr int value = n;
};

template <typename Body>
inline void each_columns(int n_cols, Body body) {
    int c = 0;
    for (; c + wide * lanes <= n_cols; c += wide * lanes) body(c, Vectors<wide>{}, lanes);
    for (; c < n_cols; c += lanes) {
        body(c, Vectors<1>{}, n_cols - c < lanes ? n_cols - c : lanes);
    }
}

}  // namespace

void conv1d(const ConvArgs &a) {
    const int n_kept = a.n_taps - 1;
    const size_t stride = a.n_channels;
    for (int c = a.first; c < a.last; c += lanes) {
        const int n = a.last - c < lanes ? a.last - c : lanes;
        const auto row = [&](int r) {
            if (r >= n_kept) return load_n(a.x + (r - n_kept) * stride + c, n);
            return a.before ? load_n(a.before + r * stride + c, n) : vec{};
        };
        vec taps[max_conv_taps];
        for (int j = 0; j < a.n_taps; j++) {
            float w[lanes] = {};
            for (int i = 0; i < n; i++) w[i] = a.w[(size_t)(c + i) * a.n_taps + j];
            taps[j] = load(w);
        }
        const vec bias = a.bias ? load_n(a.bias + c, n) : vec{};
        for (int t = 0; t < a.n_tokens; t++) {
            vec acc = bias;
            for (int j = 0; j < a.n_taps; j++) acc = fma(taps[j], row(t + j), acc);
            store_n(a.y + t * stride + c, acc, n);
        }
        for (int i = 0; i < n_kept; i++) {
            store_n(a.after + i * stride + c, row(a.n_tokens + i), n);
        }
    }
    for (int t = 0; t < a.n_tokens; t++) {
        float *y = a.y + t * stride + a.first;
        if (a.act != Activation::identity) activate(y, y, a.last - a.first, a.act);
    }
}

void ssm_scan(const SsmArgs &a, float *scratch) {
    const int n_heads = a.n_heads, n_state = a.n_state, per_group = n_heads / a.n_groups;
    for (int t = 0; t < a.n_tokens; t++) {
        for (int h = a.first; h < a.last; h++) {
            const size_t at = (size_t)t * n_heads + h;
            const size_t group = (size_t)t * a.n_groups + h / per_group;
            const float dt = a.dt[at], *b = a.b + group * n_state, *c = a.c + group * n_state;
            if (a.n_decays == 1) {
                const float kept = exp1(dt * a.a[h]);
                for (int i = 0; i < n_state; i++) scratch[i] = kept;
            } else {
                for (int i = 0; i < n_state; i++) scratch[i] = dt * a.a[(size_t)h * n_state + i];
                exp_rows(scratch, scratch, n_state);
            }
            for (int p = 0; p < a.n_channels; p++) {
                const float x = a.x[at * a.n_channels + p], added = x * dt;
                float *s = a.state + ((size_t)h * a.n_channels + p) * n_state;
                vec acc = {};
                for (int i = 0; i < n_state; i += lanes) {
                    const int n = n_state - i < lanes ? n_state - i : lanes;
                    const vec now = fma(load_n(s + i, n), load_n(scratch + i, n),
                                        load_n(b + i, n) * added);
                    store_n(s + i, now, n);
                    acc = fma(now, load_n(c + i, n), acc);
                }
                a.y[at * a.n_channels + p] = sum(acc) + a.d[h] * x;
            }
        }
    }
}

void linear_attention(const LinearAttentionArgs &a, float *scratch) {
    const int n_k = a.k_dim, n_v = a.v_dim;
    for (int t = 0; t < a.n_tokens; t++) {
        const size_t own = (size_t)t * a.n_heads + a.head;
        const float *q = a.q + ((size_t)t * a.n_k_heads + a.k_head) * n_k;
        const float *k = a.k + ((size_t)t * a.n_k_heads + a.k_head) * n_k;
        const float *v = a.v + own * n_v;
        if (a.g && a.g_per_row) {
            exp_rows(scratch, a.g + own * n_k, n_k);
        } else {
            const float w = exp1(a.g ? a.g[own] : a.decay);
            for (int i = 0; i < n_k; i++) scratch[i] = w;
        }
        each_columns(n_v, [&]<int n>(int c, Vectors<n>, int count) {
            vec u[n], out[n] = {};
            for (int j = 0; j < n; j++) u[j] = load_n(v + c + j * lanes, count);
            float *s = a.state + c;
            if (a.beta) {
                vec answer[n] = {};
                for (int i = 0; i < n_k; i++) {
                    const vec p = splat(scratch[i] * k[i]);
                    const float *row = s + (size_t)i * n_v;
                    for (int j = 0; j < n; j++)
                        answer[j] = fma(p, load_n(row + j * lanes, count), answer[j]);
                }
                for (int j = 0; j < n; j++) u[j] = (u[j] - answer[j]) * a.beta[own];
            }
            for (int i = 0; i < n_k; i++) {
                const vec w = splat(scratch[i]), ki = splat(k[i]), qi = splat(q[i]);
                for (int j = 0; j < n; j++) {
                    float *at = s + (size_t)i * n_v + j * lanes;
                    const vec old = load_n(at, count), now = fma(w, old, ki * u[j]);
                    store_n(at, now, count);
                    const vec seen = a.first ? fma(splat(a.first[i] * k[i]), u[j], old) : now;
                    out[j] = fma(qi, seen, out[j]);
                }
            }
            for (int j = 0; j < n; j++)
                store_n(a.y + own * n_v + c + j * lanes, out[j] * a.scale, count);
        });
    }
}

void rwkv_mix(const RwkvArgs &x, float *scratch) {
    const int n_rows = x.dim;
    for (int t = 0; t < x.n_tokens; t++) {
        const size_t at = ((size_t)t * x.n_heads + x.head) * n_rows;
        const float *r = x.r + at, *k = x.k + at, *v = x.v + at, *a = x.a + at, *b = x.b + at;
        exp_rows(scratch, x.g + at, n_rows);
        each_columns(n_rows, [&]<int n>(int c, Vectors<n>, int count) {
            vec answer[n] = {}, out[n] = {}, value[n];
            for (int j = 0; j < n; j++) value[j] = load_n(v + c + j * lanes, count);
            for (int i = 0; i < n_rows; i++) {
                const float *row = x.state + (size_t)i * n_rows + c;
                for (int j = 0; j < n; j++)
                    answer[j] = fma(splat(a[i]), load_n(row + j * lanes, count), answer[j]);
            }
            for (int i = 0; i < n_rows; i++) {
                for (int j = 0; j < n; j++) {
                    float *s = x.state + (size_t)i * n_rows + c + j * lanes;
                    vec now = fma(splat(b[i]), answer[j], value[j] * k[i]);
                    now = fma(splat(scratch[i]), load_n(s, count), now);
                    store_n(s, now, count);
                    out[j] = fma(splat(r[i]), now, out[j]);
                }
            }
            for (int j = 0; j < n; j++) store_n(x.y + at + c + j * lanes, out[j], count);
        });
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
