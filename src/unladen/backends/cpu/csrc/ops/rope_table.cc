// The table of RoPE: cosines and sines of the angles, once a step.
#include <cmath>
#include <vector>

#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct RopeTable {
    IntInput positions;  // the step's own
    Output y;
    std::vector<double> freqs;
    double magnitude;
    int back;  // subtracted from the positions
    std::vector<double> axes;  // the axis of each frequency, if positions have several

    explicit RopeTable(Fields &of)
        : positions(of.int_input()), y(of.output()), freqs(of.numbers("freqs")),
          magnitude(of.number("magnitude")), back(of.integer("back", 0)) {
        if (of.has_attribute("axes")) axes = of.numbers("axes");
        of.require(axes.size() == (positions.n_cols > 1 ? freqs.size() : 0),
                   "there isn't an axis for each frequency");
        for (double axis : axes)
            of.require(axis >= 0 && axis < positions.n_cols, "there is no such axis");
        of.require(y.n_cols == 2 * static_cast<int>(freqs.size()),
                   "y has other columns than freqs");
    }

    void add(Builder &to) const {
        to.add(by_rows(Rows::tokens, freqs.size() * 25.0, [a = *this](const Step &, int row) {
            float *out = a.y.row(row);
            const int32_t *position = a.positions.data + row * a.positions.n_cols;
            for (size_t i = 0; i < a.freqs.size(); i++) {
                const int axis = a.axes.empty() ? 0 : static_cast<int>(a.axes[i]);
                const double angle = (position[axis] - a.back) * a.freqs[i];
                out[2 * i] = static_cast<float>(std::cos(angle) * a.magnitude);
                out[2 * i + 1] = static_cast<float>(std::sin(angle) * a.magnitude);
            }
        }));
    }
};

const Registered<RopeTable> registered("rope_table");

}  // namespace
}  // namespace unladen::cpu
