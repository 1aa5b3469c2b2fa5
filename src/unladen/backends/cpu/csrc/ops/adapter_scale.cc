// The strengths of low-rank adapters, by the set that a token's sequence uses.
#include <algorithm>
#include <vector>

#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct AdapterScale {
    Input x;
    Output y;
    std::vector<double> ranks;   // columns of each adapter
    std::vector<double> scales;  // [sets][adapters]

    explicit AdapterScale(Fields &of)
        : x(of.input()), y(of.output()), ranks(of.numbers("ranks")), scales(of.numbers("scales")) {
        double n_cols = 0;
        for (double rank : ranks) n_cols += rank;
        of.require(n_cols == x.n_cols && y.n_cols == x.n_cols,
                   "x or y has other columns than the adapters have");
        of.require(!scales.empty() && scales.size() % ranks.size() == 0,
                   "there isn't a strength for each adapter of each set");
    }

    // The strength of each column in each set.
    std::vector<float> strengths() const {
        std::vector<float> all;
        for (size_t i = 0; i < scales.size(); i++)
            all.insert(all.end(), static_cast<size_t>(ranks[i % ranks.size()]),
                       static_cast<float>(scales[i]));
        return all;
    }

    void add(Builder &to) const {
        const size_t n = x.n_cols;
        to.add(by_rows(Rows::tokens, n * 0.3,
                       [a = *this, n, table = strengths()](const Step &step, int row) {
            const int set = step.adapter_of[step.seq_of[row]];
            float *y = a.y.row(row);
            if (set < 0) {
                std::fill_n(y, n, 0.0f);
                return;
            }
            const float *x = a.x.row(row), *scale = table.data() + set * n;
            for (size_t i = 0; i < n; i++) y[i] = x[i] * scale[i];
        }));
    }
};

const Registered<AdapterScale> registered("adapter_scale");

}  // namespace
}  // namespace unladen::cpu
