#include "sample/csrc/step.h"
#include "sample/csrc/sums.h"

namespace unladen::sample {
namespace {

struct TopNSigma final : Step {
    explicit TopNSigma(const Parameters &p) : n(p.at(0)) {}

    void apply(Candidates &c, State &) const override {
        if (n == 0) return;
        c.drop_banned();
        const float *x = c.logits();
        const double size = double(c.size());
        double mean = ordered_sum(c.size(), [x](size_t i) { return double(x[i]); }) / size;
        double variance = ordered_sum(c.size(), [x, mean](size_t i) {
            return (double(x[i]) - mean) * (double(x[i]) - mean);
        }) / size;
        float least = float(double(c.max()) - n * std::sqrt(variance));
        std::vector<uint32_t> kept;
        for (size_t i = 0; i < c.size(); i++)
            if (x[i] >= least) kept.push_back(uint32_t(i));
        c.keep(kept);
    }

    double n;
};

const Registered<TopNSigma> registered("top_n_sigma");

}  // namespace
}  // namespace unladen::sample
