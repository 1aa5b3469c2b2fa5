#include "sample/csrc/step.h"
#include "sample/csrc/sums.h"

namespace unladen::sample {
namespace {

struct Dist final : Step {
    explicit Dist(const Parameters &) {}

    void apply(Candidates &c, State &state) const override {
        uint64_t total = c.weigh();
        c.chosen = c.id(draw(c, total, state));
    }
};

const Registered<Dist> registered("dist");

}  // namespace
}  // namespace unladen::sample
