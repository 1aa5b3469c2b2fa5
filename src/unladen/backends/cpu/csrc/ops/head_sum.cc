// The sum of each head's columns.
#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct HeadSum {
    Input x;
    Output y;
    int head_dim;

    explicit HeadSum(Fields &of)
        : x(of.input()), y(of.output()), head_dim(of.integer("head_dim")) {
        of.require(head_dim > 0 && y.n_cols * head_dim == x.n_cols,
                   "heads don't divide the columns");
    }

    void add(Builder &to) const {
        to.add(by_rows(x.rows, x.n_cols * 0.5, [a = *this](const Step &, int row) {
            const float *head = a.x.row(row);
            for (int h = 0; h < a.y.n_cols; h++, head += a.head_dim) {
                float sum = 0;
                for (int i = 0; i < a.head_dim; i++) sum += head[i];
                a.y.row(row)[h] = sum;
            }
        }));
    }
};

const Registered<HeadSum> registered("head_sum");

}  // namespace
}  // namespace unladen::cpu
