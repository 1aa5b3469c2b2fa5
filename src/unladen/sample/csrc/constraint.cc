#include <stdexcept>

#include "sample/csrc/step.h"

namespace unladen::sample {
namespace {

struct Constraint final : Step {
    explicit Constraint(const Parameters &p) : slot(whole<size_t>(p.at(0))) {}

    void apply(Candidates &c, State &state) const override {
        if (slot >= state.masks.size()) throw std::invalid_argument("a constraint without a mask");
        const Mask &mask = state.masks[slot];
        if (c.size() && size_t(c.id(c.size() - 1)) >= 32 * mask.n_words)
            throw std::invalid_argument("a mask for fewer tokens than there are");
        c.keep_allowed(mask.words);
    }

    size_t slot;  // its number among the chain's constraints
};

const Registered<Constraint> registered("constraint");

}  // namespace
}  // namespace unladen::sample
