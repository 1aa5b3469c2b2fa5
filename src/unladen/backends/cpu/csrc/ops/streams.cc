// Residual streams side by side: with what weights they are mixed, and mixing them.
#include <cmath>
#include <cstring>

#include "backends/cpu/csrc/ops/by_rows.h"

namespace unladen::cpu {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// a [n][n] is divided by the sums of its rows, or of its columns, plus eps.
void normalize(double *a, int n, bool rows, double eps) {
    for (int i = 0; i < n; i++) {
        const int first = rows ? i * n : i, step = rows ? 1 : n;
        double sum = eps;
        for (int j = 0; j < n; j++) sum += a[first + j * step];
        for (int j = 0; j < n; j++) a[first + j * step] /= sum;
    }
}

// What stays of each stream where that is learned: see HyperWeights.
void mixing(float *y, const double *z, const StreamOptions &o) {
    const int n = o.n_streams;
    double a[max_streams * max_streams];
    for (int i = 0; i < n * n; i++) a[i] = z[i];
    for (int i = 0; i < n; i++) {
        const double top = *std::max_element(a + i * n, a + (i + 1) * n);
        for (int j = 0; j < n; j++) a[i * n + j] = std::exp(a[i * n + j] - top);
    }
    normalize(a, n, true, 0.0);
    for (int i = 0; i < n * n; i++) a[i] += o.eps;
    normalize(a, n, false, o.eps);
    for (int round = 1; round < o.n_rounds; round++) {
        normalize(a, n, true, o.eps);
        normalize(a, n, false, o.eps);
    }
    for (int i = 0; i < n * n; i++) y[i] = static_cast<float>(a[i]);
}

}  // namespace

OperationPtr make_hyper_weights(const float *x, const float *scale, const float *base, float *into,
                                 float *spread, Rows rows, StreamOptions o) {
    const int n = o.n_streams;
    if (n > max_streams) throw std::invalid_argument("there are too many residual streams");
    const int m = spread ? (o.mixes ? (2 + n) * n : 2 * n) : n;
    return by_rows(rows, m * (20.0 + 4 * o.n_rounds * o.mixes), [=](const Step &, int row) {
        double z[(2 + max_streams) * max_streams];
        for (int i = 0; i < m; i++) {
            const double factor = scale[std::min(i / n, 2)];
            z[i] = factor * x[static_cast<size_t>(row) * m + i] + base[i];
        }
        for (int i = 0; i < n; i++)
            into[static_cast<size_t>(row) * n + i] = static_cast<float>(sigmoid(z[i]) + o.eps);
        if (!spread) return;
        float *y = spread + static_cast<size_t>(row) * (n + 1) * n;
        if (o.mixes) {
            mixing(y, z + 2 * n, o);
        } else {
            for (int i = 0; i < n * n; i++) y[i] = i % (n + 1) == 0;
        }
        for (int i = 0; i < n; i++)
            y[n * n + i] = static_cast<float>(o.magnitude * sigmoid(z[n + i]) + o.out_eps);
    });
}

OperationPtr make_hyper_mix(const Kernels &k, std::vector<std::pair<const float *, int>> xs,
                              const float *w, float *y, Rows rows, int width, int n_out) {
    int n_in = 0;
    for (auto &x : xs) n_in += x.second;
    return by_rows(rows, n_in * n_out * width * 0.15, [=, &k](const Step &, int row) {
        float *out = y + static_cast<size_t>(row) * n_out * width;
        const float *factors = w + static_cast<size_t>(row) * n_in * n_out;
        std::memset(out, 0, static_cast<size_t>(n_out) * width * sizeof(float));
        for (auto [x, count] : xs) {
            for (int s = 0; s < count; s++, factors += n_out) {
                const float *in = x + (static_cast<size_t>(row) * count + s) * width;
                for (int d = 0; d < n_out; d++)
                    if (factors[d] != 0) k.scale_add(out + d * width, in, width, factors[d]);
            }
        }
    });
}

}  // namespace unladen::cpu
