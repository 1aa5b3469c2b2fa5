// Chooses the experts of a token and their weights.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/csrc/ops/fields.h"

namespace unladen::cpu {

enum class Gating : int32_t { softmax, sigmoid, softmax_chosen, sqrt_softplus };

template <>
struct Names<Gating> {
    static constexpr const char *what = "gating";
    static constexpr const char *all[] = {"softmax", "sigmoid", "softmax_chosen",
                                          "sqrt_softplus"};
};

// See class Routing in graph/ops/routing.py.
struct Routing {
    int n_used;
    Gating gating;
    bool normalize;
    float scale;
    int n_groups, n_groups_used, fold;
    Vector router_b, select_b;  // [n_experts] or none

    explicit Routing(Fields &of)
        : n_used(of.integer("n_used")), gating(of.choice("gating", Gating::softmax)),
          normalize(of.flag("normalize")), scale(static_cast<float>(of.number("scale", 1))),
          n_groups(of.integer("n_groups", 1)), n_groups_used(of.integer("n_groups_used", 1)),
          fold(of.integer("fold", 1)), router_b(of.vector_if("router_b")),
          select_b(of.vector_if("select_b")) {}
    // Throws std::invalid_argument if experts can't be chosen in this way among n_experts.
    void check(const Fields &of, int n_experts) const;
};

class Router {
public:
    Router(const Routing &routing, int n_experts);
    // Writes n_used experts for the logits of one token, best first, and their weights. `given`
    // [n_used] or nullptr: numbers of experts that are chosen before all others.
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
