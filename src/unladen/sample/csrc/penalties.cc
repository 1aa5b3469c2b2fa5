#include "sample/csrc/arithmetic.h"
#include "sample/csrc/step.h"

namespace unladen::sample {
namespace {

struct Penalties final : Step {
    explicit Penalties(const Parameters &p)
        : last_n(whole<int32_t>(p.at(0))), repeat(float(p.at(1))), frequency(float(p.at(2))),
          presence(float(p.at(3))) {}

    void apply(Candidates &c, State &state) const override {
        if (last_n == 0 || (repeat == 1 && frequency == 0 && presence == 0)) return;
        const State::Counts &counts = state.counts(last_n);
        if (counts.empty()) return;
        float *logits = c.writable();
        for (auto [token, count] : counts)
            if (size_t at; c.find(token, at))
                logits[at] = penalize(logits[at], float(count), repeat, frequency, presence);
        c.touched();
    }

    int32_t last_n;
    float repeat, frequency, presence;
};

const Registered<Penalties> registered("penalties");

}  // namespace
}  // namespace unladen::sample
