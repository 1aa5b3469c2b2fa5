// Limits numbers smoothly: cap * tanh(x / cap).
#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct Softcap {
    Input x;
    Output y;
    float cap;

    explicit Softcap(Fields &of)
        : x(of.input()), y(of.output()), cap(static_cast<float>(of.number("cap"))) {}

    void add(Builder &to) const {
        to.add(by_rows(y.rows, x.n_cols * 0.8, [a = *this, &k = to.kernels()](const Step &,
                                                                              int row) {
            k.softcap(a.y.row(row), a.x.row(row), a.x.n_cols, a.cap);
        }));
    }
};

const Registered<Softcap> registered("softcap");

}  // namespace
}  // namespace unladen::cpu
