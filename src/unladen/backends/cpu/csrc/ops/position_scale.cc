// A factor for each token that grows with its position.
#include <cmath>

#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct PositionScale {
    IntInput positions;  // the step's own
    Output y;
    double scale;
    int length, offset;

    explicit PositionScale(Fields &of)
        : positions(of.int_input()), y(of.output()), scale(of.number("scale")),
          length(of.integer("length")), offset(of.integer("offset")) {
        of.require(length > 0, "length must be at least 1");
    }

    // y[row] = 1 + scale log(1 + (position + offset) / length).
    void add(Builder &to) const {
        to.add(by_rows(Rows::tokens, 30, [a = *this](const Step &step, int row) {
            const int n = (a.positions.data[row] + a.offset) / a.length;
            a.y.data[row] = static_cast<float>(1 + a.scale * std::log1p(n));
        }));
    }
};

const Registered<PositionScale> registered("position_scale");

}  // namespace
}  // namespace unladen::cpu
