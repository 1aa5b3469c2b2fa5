// Each head divided by its length.
#include <cmath>
#include <utility>
#include <vector>

#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct L2Norm {
    Input x;
    Output y;
    int head_dim;
    float eps;

    explicit L2Norm(Fields &of)
        : x(of.input()), y(of.output()), head_dim(of.integer("head_dim")),
          eps(static_cast<float>(of.number("eps"))) {
        of.require(head_dim > 0 && x.n_cols % head_dim == 0, "heads don't divide the columns");
    }

    void add(Builder &to) const {
        // Computed as an RMS norm: the root of a sum is the root of the mean times that of the
        // count.
        std::vector<float> w(head_dim, 1.0f / std::sqrt(static_cast<float>(head_dim)));
        to.add(by_rows(x.rows, x.n_cols * 0.2, [a = *this, &k = to.kernels(),
                                                w = std::move(w)](const Step &, int row) {
            for (int i = 0; i < a.x.n_cols; i += a.head_dim)
                k.rms_norm(a.y.row(row) + i, a.x.row(row) + i, w.data(), a.head_dim,
                           a.eps / a.head_dim);
        }));
    }
};

const Registered<L2Norm> registered("l2_norm");

}  // namespace
}  // namespace unladen::cpu
