// Rows of a table in any block format, as float32.
#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/products.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct Embed {
    IntInput ids;
    Output y;
    Matrix table;

    explicit Embed(Fields &of) : ids(of.int_input()), y(of.output()), table(of.matrix("w")) {}

    void add(Builder &to) const {
        const auto dequantize = to.kernels().dequantize(table.type.c_str());
        const Linear &kernel = linear_kernel(to.kernels(), table.type, true);
        const size_t row_bytes = kernel.row_bytes(table.n_cols);
        to.add(by_rows(y.rows, table.n_cols * 0.5,
                       [=, ids = ids.data, y = y, from = table.data,
                        n = table.n_cols](const Step &, int row) {
                           dequantize(y.row(row), from + ids[row] * row_bytes, n);
                       }));
    }
};

const Registered<Embed> registered("embed");

}  // namespace
}  // namespace unladen::cpu
