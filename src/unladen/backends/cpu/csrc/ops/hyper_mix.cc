// Weighted sums of residual streams, with weights for each token.
#include <cstring>
#include <vector>

#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct HyperMix {
    std::vector<Input> xs;
    Input w;  // [rows][n_in][n_out]
    Output y;
    int width, n_in = 0, n_out;

    explicit HyperMix(Fields &of)
        : xs(of.inputs(1)), w(of.input()), y(of.output()), width(of.integer("width")) {
        of.require(width > 0, "width must be at least 1");
        for (const Input &x : xs) {
            of.require(x.n_cols % width == 0, "streams don't divide the columns");
            n_in += x.n_cols / width;
        }
        n_out = y.n_cols / width;
        of.require(y.n_cols == n_out * width && w.n_cols == n_in * n_out,
                   "there isn't a weight for each pair of streams");
    }

    void add(Builder &to) const {
        to.add(by_rows(w.rows, n_in * n_out * width * 0.15,
                       [a = *this, &k = to.kernels()](const Step &, int row) { a.run(k, row); }));
    }

    void run(const Kernels &k, int row) const {
        float *out = y.row(row);
        const float *factors = w.row(row);
        std::memset(out, 0, static_cast<size_t>(n_out) * width * sizeof(float));
        for (const Input &x : xs) {
            const float *in = x.row(row), *end = in + x.n_cols;
            for (; in < end; in += width, factors += n_out)
                for (int d = 0; d < n_out; d++)
                    if (factors[d] != 0) k.scale_add(out + d * width, in, width, factors[d]);
        }
    }
};

const Registered<HyperMix> registered("hyper_mix");

}  // namespace
}  // namespace unladen::cpu
