// RoPE: rotates pairs of every head by the table's angles.
#include <cstring>
#include <vector>

#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

enum class Style : int32_t { norm, neox };

}  // namespace

template <>
struct Names<Style> {
    static constexpr const char *what = "style";
    static constexpr const char *all[] = {"norm", "neox"};
};

namespace {

struct Rope {
    std::vector<Input> xs;
    Input table;
    std::vector<Output> ys;
    int head_dim, first;  // first: the first dimension of a head that is rotated
    bool neox;

    explicit Rope(Fields &of)
        : xs(of.inputs(1)), table(of.input()), ys(of.outputs()), head_dim(of.integer("head_dim")),
          first(of.integer("first", 0)), neox(of.choice<Style>("style") == Style::neox) {
        of.require(xs.size() == ys.size(), "it has as many outputs as arrays to turn");
        of.require(first >= 0 && first + table.n_cols <= head_dim,
                   "the table turns more dimensions than a head has");
    }

    void add(Builder &to) const {
        for (size_t i = 0; i < xs.size(); i++)
            to.add(turned(to.kernels(), xs[i], ys[i]));
    }

    OperationPtr turned(const Kernels &kernels, Input x, Output y) const {
        return by_rows(Rows::tokens, x.n_cols * 0.4, [x, y, table = table, first = first,
                                                      head_dim = head_dim, neox = neox,
                                                      &k = kernels](const Step &, int row) {
            const float *angles = table.row(row), *from = x.row(row);
            float *out = y.row(row);
            const int n_heads = x.n_cols / head_dim, n_rot = table.n_cols;
            if (first == 0) {
                k.rope(out, from, angles, n_heads, head_dim, n_rot, neox);
                return;
            }
            for (int h = 0; h < n_heads; h++, out += head_dim, from += head_dim) {
                std::memcpy(out, from, first * sizeof(float));
                k.rope(out + first, from + first, angles, 1, head_dim - first, n_rot, neox);
            }
        });
    }
};

const Registered<Rope> registered("rope");

}  // namespace
}  // namespace unladen::cpu
