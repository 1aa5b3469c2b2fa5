#include <algorithm>

#include "sample/csrc/step.h"
#include "sample/csrc/sums.h"

namespace unladen::sample {
namespace {

constexpr double width = 0.3, peak = 5, sharpness = 10;

struct AdaptiveP final : Step {
    explicit AdaptiveP(const Parameters &p) : target(p.at(0)), decay(p.at(1)) {}

    void apply(Candidates &c, State &state) const override {
        c.drop_banned();
        double &drawn = state.number("adaptive_p drawn", 0);
        double &count = state.number("adaptive_p count", 0);
        const double total = double(c.weigh());
        const double moved = count == 0 ? target : 2 * target - drawn / count;
        const double wanted = std::clamp(moved, 0.0, 1.0);
        std::vector<double> p(c.size());
        float *logits = c.writable();
        for (size_t i = 0; i < c.size(); i++) {
            p[i] = double(c.weights()[i]) / total;
            const double x = std::abs(p[i] - wanted) / width;
            logits[i] = float(peak - sharpness * x * x / (1 + x));
        }
        c.touched();
        const uint64_t sum = c.weigh();
        const size_t at = draw(c, sum, state);
        c.chosen = c.id(at);
        drawn = p[at] + decay * drawn;
        count = 1 + decay * count;
    }

    double target, decay;
};

const Registered<AdaptiveP> registered("adaptive_p");

}  // namespace
}  // namespace unladen::sample
