// One function of every number.
#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct ActivationOp {
    Input x;
    Output y;
    Activation act;

    explicit ActivationOp(Fields &of)
        : x(of.input()), y(of.output()), act(of.choice<Activation>("act")) {}

    void add(Builder &to) const {
        to.add(by_rows(y.rows, x.n_cols * 0.8, [a = *this, &k = to.kernels()](const Step &,
                                                                              int row) {
            k.activate(a.y.row(row), a.x.row(row), a.x.n_cols, a.act);
        }));
    }
};

const Registered<ActivationOp> registered("activation");

}  // namespace
}  // namespace unladen::cpu
