#include "sample/csrc/step.h"

namespace unladen::sample {
namespace {

struct TopK final : Step {
    explicit TopK(const Parameters &p) : k(whole<size_t>(p.at(0))) {}

    void apply(Candidates &c, State &) const override {
        if (k && k < c.size()) c.keep_best(k);
    }

    size_t k;
};

const Registered<TopK> registered("top_k");

}  // namespace
}  // namespace unladen::sample
