// Root-mean-square normalization of each group of columns.
#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/norm_weights.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct RmsNorm {
    Input x;
    Output y;
    NormWeights w;
    int group;
    float eps;

    explicit RmsNorm(Fields &of)
        : x(of.input()), y(of.output()), w{of.vector_if("w"), {}},
          group(of.integer("group", w.scale.n ? w.scale.n : x.n_cols)),
          eps(static_cast<float>(of.number("eps"))) {
        w.check(of, x.n_cols, group);
    }

    void add(Builder &to) const {
        to.add(by_rows(x.rows, x.n_cols * 0.2, [a = *this, &k = to.kernels()](const Step &,
                                                                              int row) {
            for (int i = 0; i < a.x.n_cols; i += a.group)
                k.rms_norm(a.y.row(row) + i, a.x.row(row) + i, a.w.scale_at(i), a.group, a.eps);
        }));
    }
};

const Registered<RmsNorm> registered("rms_norm");

}  // namespace
}  // namespace unladen::cpu
