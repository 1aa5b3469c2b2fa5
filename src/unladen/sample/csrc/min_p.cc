#include <cmath>

#include "sample/csrc/step.h"

namespace unladen::sample {
namespace {

struct MinP final : Step {
    explicit MinP(const Parameters &p) : ln_p(float(p.at(0))), min_keep(whole<size_t>(p.at(1))) {}

    void apply(Candidates &c, State &) const override {
        if (std::isinf(ln_p)) return;
        float threshold = c.max() + ln_p;
        std::vector<uint32_t> kept;
        for (size_t i = 0; i < c.size(); ++i)
            if (c.logits()[i] >= threshold) kept.push_back(uint32_t(i));
        if (kept.size() < min_keep)
            c.keep_best(min_keep);
        else
            c.keep(kept);
    }

    float ln_p;
    size_t min_keep;
};

const Registered<MinP> registered("min_p");

}  // namespace
}  // namespace unladen::sample
