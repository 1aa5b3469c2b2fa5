// Numbers cut at a limit on either side.
#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct Clamp {
    Input x;
    Output y;
    float limit;

    explicit Clamp(Fields &of)
        : x(of.input()), y(of.output()), limit(static_cast<float>(of.number("limit"))) {}

    void add(Builder &to) const {
        to.add(by_rows(y.rows, x.n_cols * 0.15, [n = size_t(x.n_cols), x = x.data, y = y.data,
                                                 limit = limit](const Step &, int row) {
            for (size_t i = row * n; i < (row + 1) * n; i++)
                y[i] = x[i] < -limit ? -limit : x[i] > limit ? limit : x[i];
        }));
    }
};

const Registered<Clamp> registered("clamp");

}  // namespace
}  // namespace unladen::cpu
