// The weights by which residual streams are mixed; see class HyperWeights in
// graph/ops/hyper_weights.py.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

// The most streams: a row's numbers are on the stack while they are computed.
constexpr int max_streams = 16;

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// Divides a [n][n] by the sums of its rows, or of its columns, plus eps.
void normalize(double *a, int n, bool rows, double eps) {
    for (int i = 0; i < n; i++) {
        const int first = rows ? i * n : i, step = rows ? 1 : n;
        double sum = eps;
        for (int j = 0; j < n; j++) sum += a[first + j * step];
        for (int j = 0; j < n; j++) a[first + j * step] /= sum;
    }
}

// The learned weights of streams that go past the part of a layer; see HyperWeights.
void mixing(float *y, const double *z, int n, int n_rounds, double eps) {
    double a[max_streams * max_streams];
    for (int i = 0; i < n * n; i++) a[i] = z[i];
    for (int i = 0; i < n; i++) {
        const double top = *std::max_element(a + i * n, a + (i + 1) * n);
        for (int j = 0; j < n; j++) a[i * n + j] = std::exp(a[i * n + j] - top);
    }
    normalize(a, n, true, 0.0);
    for (int i = 0; i < n * n; i++) a[i] += eps;
    normalize(a, n, false, eps);
    for (int round = 1; round < n_rounds; round++) {
        normalize(a, n, true, eps);
        normalize(a, n, false, eps);
    }
    for (int i = 0; i < n * n; i++) y[i] = static_cast<float>(a[i]);
}

struct HyperWeights {
    Input x;
    Vector scale, base;
    Output into;
    std::vector<Output> spread;  // one or none
    int n_streams, n_rounds;
    double eps, magnitude, out_eps;

    explicit HyperWeights(Fields &of)
        : x(of.input()), scale(of.vector("scale")), base(of.vector("base")), into(of.output()),
          spread(of.outputs()), n_streams(of.integer("n_streams")),
          n_rounds(of.integer("n_rounds")), eps(of.number("eps")),
          magnitude(of.number("magnitude")), out_eps(of.number("out_eps")) {
        const int n = n_streams, m = x.n_cols;
        of.require(n > 0 && (m == n || m == 2 * n || mixes()),
                   "x has other columns than n_streams streams have weights");
        of.require(spread.size() == (m > n ? 1 : 0), "it has another number of outputs");
        of.require(base.n == m && scale.n == 1 + (m > n) + mixes(),
                   "the weights have other sizes than x");
    }

    bool mixes() const { return x.n_cols == (2 + n_streams) * n_streams; }

    static const char *limit() { return "at most 16 streams"; }
    bool fits() const {
        static_assert(max_streams == 16, "limit() says so");
        return n_streams <= max_streams;
    }

    void add(Builder &to) const {
        const double ns = x.n_cols * (20.0 + 4 * n_rounds * mixes());
        to.add(by_rows(x.rows, ns, [a = *this](const Step &, int row) { a.run(row); }));
    }

    void run(int row) const {
        const int n = n_streams, m = x.n_cols;
        double z[(2 + max_streams) * max_streams];
        for (int i = 0; i < m; i++) {
            const double factor = scale.data[std::min(i / n, 2)];
            z[i] = factor * x.row(row)[i] + base.data[i];
        }
        for (int i = 0; i < n; i++)
            into.row(row)[i] = static_cast<float>(sigmoid(z[i]) + eps);
        if (spread.empty()) return;
        float *y = spread[0].row(row);
        if (mixes()) {
            mixing(y, z + 2 * n, n, n_rounds, eps);
        } else {
            for (int i = 0; i < n * n; i++) y[i] = i % (n + 1) == 0;
        }
        for (int i = 0; i < n; i++)
            y[n * n + i] = static_cast<float>(magnitude * sigmoid(z[n + i]) + out_eps);
    }
};

const Registered<HyperWeights> registered("hyper_weights");

}  // namespace
}  // namespace unladen::cpu
