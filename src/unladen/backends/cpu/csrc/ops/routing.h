// Which experts a token goes to, and with what weights.
#pragma once

#include <cstdint>
#include <vector>

namespace unladen::cpu {

enum class Gating : int32_t { softmax, sigmoid, softmax_chosen, sqrt_softplus };

// See class Routing in graph/ops/routing.py.
struct Routing {
    int n_used;
    Gating gating;
    bool normalize;
    float scale;
    int n_groups, n_groups_used, fold;
    const float *router_b, *select_b;  // [n_experts] or nullptr
};

class Router {
public:
    Router(const Routing &routing, int n_experts);
    // From the logits of one token to n_used experts, best first, and their weights. `given`
    // [n_used] or nullptr: numbers of experts that come before all others.
    void choose(const float *logits, const float *given, int32_t *chosen, float *weight);

private:
    void probabilities(const float *logits);
    void mask_groups();

    Routing r_;
    int n_experts_;
    std::vector<double> p_, score_;  // [n_experts]
    std::vector<double> picked_;     // [n_used]
    std::vector<double> worth_;      // [n_groups]
};

}  // namespace unladen::cpu
