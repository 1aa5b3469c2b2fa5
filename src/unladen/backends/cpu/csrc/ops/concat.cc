// Arrays side by side, or each head's columns of several arrays.
#include <cstring>
#include <vector>

#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct Concat {
    // The columns of an input for each head: its own columns, or the same columns for all heads.
    struct Part {
        const float *x;
        size_t n_cols;
        bool is_shared;
    };
    std::vector<Part> parts;
    Output y;
    int n_heads;

    explicit Concat(Fields &of) : y(of.output()), n_heads(of.integer("n_heads", 1)) {
        const std::vector<Input> xs = of.inputs();
        const int n_shared = of.integer("n_shared", 0), n_own = int(xs.size()) - n_shared;
        of.require(n_heads > 0 && n_shared >= 0 && n_own >= 0,
                   "n_heads or n_shared is out of range");
        size_t n = 0;
        for (int i = 0; i < int(xs.size()); i++) {
            const int divisor = i < n_own ? n_heads : 1;
            of.require(xs[i].n_cols % divisor == 0, "heads don't divide the columns");
            parts.push_back({xs[i].data, size_t(xs[i].n_cols / divisor), i >= n_own});
            n += parts.back().n_cols * n_heads;
        }
        of.require(n == size_t(y.n_cols), "y has other columns than all inputs");
    }

    void add(Builder &to) const {
        to.add(by_rows(y.rows, y.n_cols * 0.2, [a = *this](const Step &, int row) {
            float *out = a.y.row(row);
            for (int h = 0; h < a.n_heads; h++) {
                for (const Part &part : a.parts) {
                    const size_t at = part.is_shared ? row : row * a.n_heads + h;
                    std::memcpy(out, part.x + at * part.n_cols, part.n_cols * sizeof(float));
                    out += part.n_cols;
                }
            }
        }));
    }
};

const Registered<Concat> registered("concat");

}  // namespace
}  // namespace unladen::cpu
