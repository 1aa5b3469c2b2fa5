// A gated unit: act(gate) * up.
#include <algorithm>
#include <cstring>

#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/gated.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

// How many columns are copied at a time if the unit has limits or several columns share a gate.
constexpr int part_columns = 256;

struct Glu {
    Input gate, up;
    Output y;
    GatedUnit unit;

    explicit Glu(Fields &of)
        : gate(of.input()), up(of.input()), y(of.output()), unit(of) {
        of.require(gate.n_cols > 0 && up.n_cols % gate.n_cols == 0,
                   "gates don't divide the columns");
    }

    void add(Builder &to) const {
        to.add(by_rows(y.rows, up.n_cols * 0.9, [a = *this, &k = to.kernels()](const Step &,
                                                                               int row) {
            a.run(k, row);
        }));
    }

    void run(const Kernels &k, int row) const {
        const int n = up.n_cols, each = n / gate.n_cols;
        const float *g = gate.row(row), *u = up.row(row);
        float *out = y.row(row);
        if (each == 1 && unit.limit == 0 && unit.up_offset == 0) {
            k.glu(out, g, u, n, unit.act);
            return;
        }
        float gates[part_columns], ups[part_columns];
        for (int i = 0; i < n; i += part_columns) {
            const int count = std::min(part_columns, n - i);
            for (int j = 0; j < count; j++) gates[j] = g[(i + j) / each];
            std::memcpy(ups, u + i, count * sizeof(float));
            unit.cut(gates, ups, count);
            k.glu(out + i, gates, ups, count, unit.act);
        }
    }
};

const Registered<Glu> registered("glu");

}  // namespace
}  // namespace unladen::cpu
