#include <algorithm>
#include <numeric>

#include "sample/csrc/step.h"
#include "sample/csrc/sums.h"

namespace unladen::sample {
namespace {

struct TypicalP final : Step {
    explicit TypicalP(const Parameters &p) : p(p.at(0)), min_keep(whole<size_t>(p.at(1))) {}

    void apply(Candidates &c, State &) const override {
        if (p >= 1) return;
        c.drop_banned();
        const uint64_t total = c.weigh();
        const double mean = mean_below_max(c, total);
        std::vector<double> shift(c.size());
        for (size_t i = 0; i < c.size(); i++) shift[i] = std::abs(below_max(c, i) - mean);
        std::vector<uint32_t> order(c.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](uint32_t a, uint32_t b) { return shift[a] < shift[b]; });
        size_t n_kept = 0;
        for (uint64_t sum = 0; n_kept < order.size();) {
            sum += c.weights()[order[n_kept++]];
            if (double(sum) > p * double(total)) break;
        }
        order.resize(std::min(order.size(), std::max(n_kept, min_keep)));
        std::sort(order.begin(), order.end());
        c.keep(order);
    }

    double p;
    size_t min_keep;
};

const Registered<TypicalP> registered("typical_p");

}  // namespace
}  // namespace unladen::sample
