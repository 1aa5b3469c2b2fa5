#include "sample/csrc/step.h"

namespace unladen::sample {
namespace {

struct Dist final : Step {
    explicit Dist(const Parameters &) {}

    void apply(Candidates &c, State &state) const override {
        uint64_t total = c.weigh();
        __extension__ using Wide = unsigned __int128;
        uint64_t left = uint64_t(Wide{state.random()} * total >> 64);
        const uint64_t *weights = c.weights();
        size_t i = 0;
        while (weights[i] <= left) left -= weights[i++];  // ends: left < the sum of the rest
        c.chosen = c.id(i);
    }
};

const Registered<Dist> registered("dist");

}  // namespace
}  // namespace unladen::sample
