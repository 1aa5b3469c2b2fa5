#include <algorithm>

#include "sample/csrc/step.h"
#include "sample/csrc/sums.h"

namespace unladen::sample {
namespace {

constexpr float lowest = 1e-6f;

struct DynamicTemperature final : Step {
    explicit DynamicTemperature(const Parameters &p)
        : low(std::max(0.0, p.at(0) - p.at(1))), high(p.at(0) + p.at(1)), exponent(p.at(2)) {}

    void apply(Candidates &c, State &) const override {
        c.drop_banned();
        if (c.size() < 2) return;
        const uint64_t total = c.weigh();
        const double entropy = log_total(total) + mean_below_max(c, total);
        const double share = std::clamp(entropy / std::log(double(c.size())), 0.0, 1.0);
        const float found = float(low + (high - low) * std::pow(share, exponent));
        if (found < lowest)
            c.keep_best(1);
        else if (found != 1)
            c.divide(found);
    }

    double low, high, exponent;
};

const Registered<DynamicTemperature> registered("dynamic_temperature");

}  // namespace
}  // namespace unladen::sample
