// Operations that work row by row.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "backends/cpu/csrc/ops/builder.h"

namespace unladen::cpu {

// Calls f(step, row) for each of the step's rows, in tiles with enough work to share with threads.
template <class RowFunction>
class RowOperation final : public Operation {
public:
    RowOperation(Rows rows, double ns_per_row, RowFunction f)
        : rows_(rows), ns_per_row_(ns_per_row), f_(std::move(f)) {}

    Tiling prepare(const Step &step) override {
        int n = count(step, rows_);
        rows_per_tile_ = std::clamp(static_cast<int>(1500 / ns_per_row_), 1, std::max(1, n));
        return {ceil_div(n, rows_per_tile_), n * ns_per_row_};
    }
    void tile(const Step &step, int index, void *) override {
        int last = std::min(count(step, rows_), (index + 1) * rows_per_tile_);
        for (int row = index * rows_per_tile_; row < last; row++) f_(step, row);
    }

private:
    Rows rows_;
    double ns_per_row_;
    int rows_per_tile_ = 1;
    RowFunction f_;
};

template <class RowFunction>
OperationPtr by_rows(Rows rows, double ns_per_row, RowFunction f) {
    return std::make_unique<RowOperation<RowFunction>>(rows, std::max(1.0, ns_per_row),
                                                       std::move(f));
}

}  // namespace unladen::cpu
