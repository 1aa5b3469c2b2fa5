// x times a number and, where there is a weight, times or divided by its numbers.
#include <utility>
#include <vector>

#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct Scale {
    Input x;
    Output y;
    float s;
    Vector w;  // each number is for n_cols / w.n neighbouring columns
    bool divides;

    explicit Scale(Fields &of)
        : x(of.input()), y(of.output()), s(static_cast<float>(of.number("s"))),
          w(of.vector_if("w")), divides(of.flag("divide")) {
        of.require(w.n == 0 || x.n_cols % w.n == 0, "the weight's numbers don't divide a row");
    }

    // Reads the weight when the program is built, not in each step.
    void add(Builder &to) const {
        const size_t n = x.n_cols;
        std::vector<float> factors(n, s);
        for (size_t i = 0; w.n > 0 && i < n; i++) {
            const float factor = w.data[i * w.n / n];
            factors[i] = divides ? s / factor : s * factor;
        }
        to.add(by_rows(y.rows, n * 0.15, [=, x = x.data, y = y.data,
                                          factors = std::move(factors)](const Step &, int row) {
            for (size_t i = 0; i < n; i++) y[row * n + i] = x[row * n + i] * factors[i];
        }));
    }
};

const Registered<Scale> registered("scale");

}  // namespace
}  // namespace unladen::cpu
