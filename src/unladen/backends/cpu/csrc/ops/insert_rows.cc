// Rows that the caller brings in place of some tokens' embeddings.
#include <cstring>

#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct InsertRows {
    Input x;
    IntInput row_of;
    Input rows;
    Output y;

    explicit InsertRows(Fields &of)
        : x(of.input()), row_of(of.int_input()), rows(of.input()), y(of.output()) {
        of.require(rows.n_cols == x.n_cols && y.n_cols == x.n_cols,
                   "the rows have other columns than x");
    }

    void add(Builder &to) const {
        to.add(by_rows(Rows::tokens, x.n_cols * 0.2, [a = *this](const Step &, int row) {
            const int from = a.row_of.data[row];
            std::memcpy(a.y.row(row), from < 0 ? a.x.row(row) : a.rows.row(from),
                        a.x.n_cols * sizeof(float));
        }));
    }
};

const Registered<InsertRows> registered("insert_rows");

}  // namespace
}  // namespace unladen::cpu
