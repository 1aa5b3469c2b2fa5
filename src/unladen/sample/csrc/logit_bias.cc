#include <utility>

#include "sample/csrc/step.h"

namespace unladen::sample {
namespace {

struct LogitBias final : Step {
    explicit LogitBias(const Parameters &p) {
        for (size_t i = 0; i < p.size(); i += 2)
            bias.emplace_back(whole<int32_t>(p[i]), float(p.at(i + 1)));
    }

    void apply(Candidates &c, State &) const override {
        if (bias.empty()) return;
        float *logits = c.writable();
        for (auto [token, amount] : bias)
            if (size_t at; c.find(token, at)) logits[at] += amount;
        c.touched();
    }

    std::vector<std::pair<int32_t, float>> bias;
};

const Registered<LogitBias> registered("logit_bias");

}  // namespace
}  // namespace unladen::sample
