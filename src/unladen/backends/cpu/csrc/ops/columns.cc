// Some of the columns of each group of columns.
#include <cstring>

#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct Columns {
    Input x;
    Output y;
    int group, first, count;

    explicit Columns(Fields &of)
        : x(of.input()), y(of.output()), group(of.integer("group", x.n_cols)),
          first(of.integer("first")), count(of.integer("count")) {
        of.require(group > 0 && x.n_cols % group == 0, "groups of columns don't divide a row");
        of.require(first >= 0 && count >= 0 && first + count <= group,
                   "the columns lie outside their group");
    }

    void add(Builder &to) const {
        to.add(by_rows(y.rows, x.n_cols * 0.1, [a = *this](const Step &, int row) {
            const float *from = a.x.row(row) + a.first;
            float *out = a.y.row(row);
            for (int i = 0; i < a.x.n_cols; i += a.group, from += a.group, out += a.count)
                std::memcpy(out, from, a.count * sizeof(float));
        }));
    }
};

const Registered<Columns> registered("columns");

}  // namespace
}  // namespace unladen::cpu
