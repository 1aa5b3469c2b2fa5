// The native steps of a sampler chain, in order.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sample/csrc/step.h"

namespace unladen::sample {

class Chain {
public:
    // Throws std::invalid_argument for an unknown opcode, std::out_of_range for too few parameters.
    explicit Chain(const std::vector<std::pair<std::string, Parameters>> &steps);
    Chain(const Chain &) = delete;

    // Runs the steps. Afterwards candidates.chosen is -1 if none of them chooses.
    void run(Candidates &candidates, State &state) const;

    // The token that the chain picks from `n` logits, a whole vocabulary. The chain has a step that
    // chooses.
    int32_t pick(const float *logits, size_t n, State &state) const;

private:
    std::vector<std::unique_ptr<Step>> steps_;
};

struct Logprobs {
    double logprob;
    std::vector<std::pair<int32_t, double>> top;
};

// The log-softmax of one token and of the n_top most likely; token < n.
Logprobs logprobs(const float *logits, size_t n, size_t token, size_t n_top);

}  // namespace unladen::sample
