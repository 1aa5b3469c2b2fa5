// Operations on single rows of float32: norms, rotary positions, activations, sums.
#include "backends/cpu/csrc/isa/simd/float.h"
#include "backends/cpu/csrc/isa/formats/bits.h"

namespace unladen::cpu::UNLADEN_ISA {

namespace {

// The largest of interleaved_rows numbers; NaN if one is NaN. Compares integers that are in the
// order of the floats.
inline float largest_of(const float *x) {
    int32_t most = INT32_MIN, size = 0;
    for (int i = 0; i < interleaved_rows; ++i) {
        const int32_t bits = bits::load<int32_t>(reinterpret_cast<const uint8_t *>(x + i));
        const int32_t order = bits ^ (bits >> 31 & INT32_MAX), without_sign = bits & INT32_MAX;
        most = order > most ? order : most;
        size = without_sign > size ? without_sign : size;
    }
    constexpr int32_t infinity = 0x7f800000;
    return bits::float_of(size > infinity ? size : most ^ (most >> 31 & INT32_MAX));
}

// Calls body(at, n) for all of [0, count), with n = lanes except at a shorter end.
template <typename Body>
inline void each_vector(int count, Body body) {
    int i = 0;
    for (; i + lanes <= count; i += lanes) body(i, lanes);
    if (i < count) body(i, count - i);
}

inline vec load_at(const float *p, int i, int n) {
    return n == lanes ? load(p + i) : load_first(p + i, n);
}

inline void store_at(float *p, int i, int n, vec v) {
    if (n == lanes) {
        store(p + i, v);
    } else {
        store_first(p + i, v, n);
    }
}

inline vec first_lanes(vec v, int n) {
    if (n == lanes) return v;
    float a[lanes];
    store(a, v);
    return load_first(a, n);
}

// Folds the vectors of x with acc = term(acc, v, n), where n lanes of v count, and adds up. Vector
// i goes to accumulator i mod 4.
template <typename Term>
inline float sum_of(const float *x, int count, Term term) {
    vec acc[4] = {};
    int i = 0;
    for (; i + 4 * lanes <= count; i += 4 * lanes) {
        for (int j = 0; j < 4; j++) acc[j] = term(acc[j], load(x + i + j * lanes), lanes);
    }
    for (int j = 0; i < count; i += lanes, j++) {
        const int n = count - i < lanes ? count - i : lanes;
        acc[j] = term(acc[j], load_at(x, i, n), n);
    }
    return sum((acc[0] + acc[2]) + (acc[1] + acc[3]));
}

template <Activation act>
struct Function {
    vec operator()(vec x) const {
        if constexpr (act == Activation::silu) {
            return x / (1.0f + exp(-x));
        } else if constexpr (act == Activation::gelu) {
            // x (1 + tanh u) / 2 = x / (1 + e^(-2 u)) with u = sqrt(2 / pi) (x + 0.044715 x^3);
            // this form loses no digits where tanh is near -1.
            return x / (1.0f + exp(-x * fma(x * x, splat(0.0713548163f), splat(1.59576912f))));
        } else if constexpr (act == Activation::gelu_erf) {
            const vec tail = normal_tail(magnitude(x));
            return x * choose(x < 0.0f, tail, 1.0f - tail);
        } else if constexpr (act == Activation::gelu_quick) {
            return x / (1.0f + exp(x * -1.702f));
        } else if constexpr (act == Activation::sigmoid) {
            return 1.0f / (1.0f + exp(-x));
        } else if constexpr (act == Activation::tanh) {
            return UNLADEN_ISA::tanh(x);
        } else if constexpr (act == Activation::softplus) {
            return max(vec{}, x) + log_1p(exp(-magnitude(x)));
        } else if constexpr (act == Activation::exp) {
            return exp(x);
        } else if constexpr (act == Activation::identity) {
            return x;
        } else {
            const vec positive = max(vec{}, x);
            return act == Activation::relu ? positive : positive * positive;
        }
    }
};

// Calls body(f) with the activation as a function of a vector.
template <typename Body>
inline void with_function(Activation act, Body body) {
    switch (act) {
    case Activation::silu: return body(Function<Activation::silu>{});
    case Activation::gelu: return body(Function<Activation::gelu>{});
    case Activation::gelu_erf: return body(Function<Activation::gelu_erf>{});
    case Activation::gelu_quick: return body(Function<Activation::gelu_quick>{});
    case Activation::relu: return body(Function<Activation::relu>{});
    case Activation::relu_squared: return body(Function<Activation::relu_squared>{});
    case Activation::sigmoid: return body(Function<Activation::sigmoid>{});
    case Activation::tanh: return body(Function<Activation::tanh>{});
    case Activation::softplus: return body(Function<Activation::softplus>{});
    case Activation::exp: return body(Function<Activation::exp>{});
    case Activation::identity: return body(Function<Activation::identity>{});
    }
}

// Turns two vectors of neighbouring pairs into one of first and one of second numbers, and back.
template <int... i>
inline void unzip(vec &a, vec &b, Seq<i...>) {
    const vec first = __builtin_shufflevector(a, b, (2 * i)...);
    b = __builtin_shufflevector(a, b, (2 * i + 1)...);
    a = first;
}

template <int... i>
inline void zip(vec &a, vec &b, Seq<i...>) {
    const vec low = __builtin_shufflevector(a, b, (i / 2 + i % 2 * lanes)...);
    b = __builtin_shufflevector(a, b, (lanes / 2 + i / 2 + i % 2 * lanes)...);
    a = low;
}

// Rotates n_pairs pairs. neox: (x[i], x[i + n_pairs]), otherwise (x[2 i], x[2 i + 1]).
template <bool neox>
inline void rotate(float *y, const float *x, const float *cs, int n_pairs) {
    int i = 0;
    for (; i + lanes <= n_pairs; i += lanes) {
        const int first = neox ? i : 2 * i;
        const int second = neox ? i + n_pairs : 2 * i + lanes;
        vec c = load(cs + 2 * i), s = load(cs + 2 * i + lanes);
        vec a = load(x + first), b = load(x + second);
        unzip(c, s, LaneNumbers{});
        if constexpr (!neox) unzip(a, b, LaneNumbers{});
        vec turned_a = a * c - b * s;
        vec turned_b = a * s + b * c;
        if constexpr (!neox) zip(turned_a, turned_b, LaneNumbers{});
        store(y + first, turned_a);
        store(y + second, turned_b);
    }
    for (; i < n_pairs; i++) {
        const int first = neox ? i : 2 * i;
        const int second = neox ? i + n_pairs : 2 * i + 1;
        const float a = x[first], b = x[second], c = cs[2 * i], s = cs[2 * i + 1];
        y[first] = a * c - b * s;
        y[second] = a * s + b * c;
    }
}

}  // namespace

void rms_norm(float *y, const float *x, const float *w, int n, float eps) {
    const float squares = sum_of(x, n, [](vec acc, vec v, int) { return fma(v, v, acc); });
    const float scale = 1.0f / __builtin_sqrtf(squares / (float)n + eps);
    each_vector(n, [=](int i, int count) {
        const vec scaled = load_at(x, i, count) * scale;
        store_at(y, i, count, w ? scaled * load_at(w, i, count) : scaled);
    });
}

void layer_norm(float *y, const float *x, const float *w, const float *b, int n, float eps) {
    const float mean = sum_of(x, n, [](vec acc, vec v, int) { return acc + v; }) / (float)n;
    const float squares = sum_of(x, n, [=](vec acc, vec v, int count) {
        const vec off = first_lanes(v - mean, count);
        return fma(off, off, acc);
    });
    const float scale = 1.0f / __builtin_sqrtf(squares / (float)n + eps);
    each_vector(n, [=](int i, int count) {
        vec v = (load_at(x, i, count) - mean) * scale;
        if (w) v *= load_at(w, i, count);
        if (b) v += load_at(b, i, count);
        store_at(y, i, count, v);
    });
}

void rope(float *y, const float *x, const float *cs, int n_heads, int head_dim, int n_rot,
          bool neox) {
    for (int h = 0; h < n_heads; h++, x += head_dim, y += head_dim) {
        if (neox) {
            rotate<true>(y, x, cs, n_rot / 2);
        } else {
            rotate<false>(y, x, cs, n_rot / 2);
        }
        if (y != x) {
            for (int i = n_rot; i < head_dim; i++) y[i] = x[i];
        }
    }
}

void activate(float *y, const float *x, int n, Activation act) {
    with_function(act, [=](auto f) {
        each_vector(n, [=](int i, int count) { store_at(y, i, count, f(load_at(x, i, count))); });
    });
}

void glu(float *y, const float *gate, const float *up, int n, Activation act) {
    with_function(act, [=](auto f) {
        each_vector(n, [=](int i, int count) {
            store_at(y, i, count, f(load_at(gate, i, count)) * load_at(up, i, count));
        });
    });
}

void add(float *y, const float *a, const float *b, int n) {
    each_vector(n, [=](int i, int count) {
        store_at(y, i, count, load_at(a, i, count) + load_at(b, i, count));
    });
}

void softcap(float *y, const float *x, int n, float cap) {
    const float inverse = 1.0f / cap;
    each_vector(n, [=](int i, int count) {
        store_at(y, i, count, tanh(load_at(x, i, count) * inverse) * cap);
    });
}

void largest(float *y, const float *x, int n) {
    int i = 0;
    for (; i + interleaved_rows <= n; i += interleaved_rows) *y++ = largest_of(x + i);
    if (i == n) return;
    float last[interleaved_rows];
    for (int j = 0; j < interleaved_rows; ++j) last[j] = x[i + j < n ? i + j : n - 1];
    *y = largest_of(last);
}

void scale_add(float *y, const float *x, int n, float s) {
    each_vector(n, [=](int i, int count) {
        store_at(y, i, count, fma(load_at(x, i, count), splat(s), load_at(y, i, count)));
    });
}

}  // namespace unladen::cpu::UNLADEN_ISA
