// The sum of two arrays, or of an array and one row.
#include <vector>

#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct Add {
    Input a;
    Vector row_b;             // one row for all of a, or
    std::vector<Input> b;     // an array like a
    Output y;

    explicit Add(Fields &of)
        : a(of.input()), row_b(of.vector_if("b")), b(of.inputs()), y(of.output()) {
        of.require(b.size() == (row_b.n ? 0 : 1), "it adds one array or one weight");
        of.require((row_b.n ? row_b.n : b[0].n_cols) == a.n_cols, "a and b differ in columns");
    }

    void add(Builder &to) const {
        const float *other = row_b.n ? row_b.data : b[0].data;
        const size_t stride = row_b.n ? 0 : a.n_cols;
        to.add(by_rows(y.rows, a.n_cols * 0.15, [=, a = a, y = y, &k = to.kernels()](const Step &,
                                                                                     int row) {
            k.add(y.row(row), a.row(row), other + row * stride, a.n_cols);
        }));
    }
};

const Registered<Add> registered("add");

}  // namespace
}  // namespace unladen::cpu
