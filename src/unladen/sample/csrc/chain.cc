#include "sample/csrc/chain.h"

#include <cmath>
#include <numbers>

#include "sample/csrc/arithmetic.h"

namespace unladen::sample {

std::map<std::string, Factory> &factories() {
    static std::map<std::string, Factory> all;
    return all;
}

Chain::Chain(const std::vector<std::pair<std::string, Parameters>> &steps) {
    for (const auto &[opcode, parameters] : steps) {
        auto found = factories().find(opcode);
        if (found == factories().end())
            throw std::invalid_argument("no native step is called " + opcode);
        steps_.push_back(found->second(parameters));
    }
}

void Chain::run(Candidates &candidates, State &state) const {
    for (const auto &step : steps_) step->apply(candidates, state);
}

int32_t Chain::pick(const float *logits, size_t n, State &state) const {
    Candidates candidates(logits, nullptr, n);
    run(candidates, state);
    if (candidates.chosen < 0) throw BadLogits("no step of the chain chose a token");
    return candidates.chosen;
}

Logprobs logprobs(const float *logits, size_t n, size_t token, size_t n_top) {
    Candidates candidates(logits, nullptr, n);
    double total = double(candidates.weigh());
    double norm = candidates.max() + std::log(total) - kWeightBits * std::numbers::ln2;
    Logprobs result{logits[token] - norm, {}};
    for (const Ranked &each : candidates.best(n_top))
        result.top.emplace_back(int32_t(each.position), each.logit - norm);
    return result;
}

}  // namespace unladen::sample
