#include <cmath>

#include "sample/csrc/arithmetic.h"
#include "sample/csrc/step.h"

namespace unladen::sample {
namespace {

struct Greedy final : Step {
    explicit Greedy(const Parameters &) {}

    void apply(Candidates &c, State &) const override {
        float max = c.max();
        if (!std::isfinite(max))
            throw BadLogits(max < 0 ? "no candidate has a finite logit"
                                    : "a step overflowed a logit to +inf");
        c.chosen = c.id(index_of(max, c.logits(), c.size()));
    }
};

const Registered<Greedy> registered("greedy");

}  // namespace
}  // namespace unladen::sample
