#include "sample/csrc/step.h"

namespace unladen::sample {
namespace {

struct Temperature final : Step {
    explicit Temperature(const Parameters &p) : temperature(float(p.at(0))) {}

    void apply(Candidates &c, State &) const override {
        if (temperature == 0)
            c.keep_best(1);
        else if (temperature != 1)
            c.divide(temperature);
    }

    float temperature;
};

const Registered<Temperature> registered("temperature");

}  // namespace
}  // namespace unladen::sample
