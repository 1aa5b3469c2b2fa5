// Layer normalization of each group of columns.
#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/norm_weights.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct LayerNorm {
    Input x;
    Output y;
    NormWeights w;
    int group;
    float eps;

    explicit LayerNorm(Fields &of)
        : x(of.input()), y(of.output()), w{of.vector_if("w"), of.vector_if("b")},
          group(of.integer("group", w.scale.n ? w.scale.n : x.n_cols)),
          eps(static_cast<float>(of.number("eps"))) {
        w.check(of, x.n_cols, group);
    }

    void add(Builder &to) const {
        to.add(by_rows(x.rows, x.n_cols * 0.3, [a = *this, &k = to.kernels()](const Step &,
                                                                              int row) {
            for (int i = 0; i < a.x.n_cols; i += a.group)
                k.layer_norm(a.y.row(row) + i, a.x.row(row) + i, a.w.scale_at(i),
                             a.w.shift_at(i), a.group, a.eps);
        }));
    }
};

const Registered<LayerNorm> registered("layer_norm");

}  // namespace
}  // namespace unladen::cpu
