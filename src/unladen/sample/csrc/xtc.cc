#include <algorithm>

#include "sample/csrc/step.h"
#include "sample/csrc/sums.h"

namespace unladen::sample {
namespace {

struct Xtc final : Step {
    explicit Xtc(const Parameters &p)
        : probability(p.at(0)), threshold(p.at(1)), min_keep(whole<size_t>(p.at(2))) {}

    void apply(Candidates &c, State &state) const override {
        if (probability == 0 || threshold > 0.5) return;
        c.drop_banned();
        if (c.size() < 2 || double(state.random() >> 11) * 0x1p-53 >= probability) return;
        const double least = threshold * double(c.weigh());
        size_t above = 0;
        for (size_t i = 0; i < c.size(); i++) above += double(c.weights()[i]) >= least;
        if (above < 2 || c.size() - (above - 1) < min_keep) return;
        std::vector<bool> dropped(c.size());
        for (const Ranked &each : c.best(above - 1)) dropped[each.position] = true;
        std::vector<uint32_t> kept;
        for (size_t i = 0; i < c.size(); i++)
            if (!dropped[i]) kept.push_back(uint32_t(i));
        c.keep(kept);
    }

    double probability, threshold;
    size_t min_keep;
};

const Registered<Xtc> registered("xtc");

}  // namespace
}  // namespace unladen::sample
