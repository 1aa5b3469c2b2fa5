#include "backends/cpu/csrc/ops/routing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace unladen::cpu {
namespace {

// The score of experts that can't be chosen (any more), and the least score of one that can.
constexpr double none = -std::numeric_limits<double>::infinity();
constexpr double least = std::numeric_limits<double>::lowest();
// The same as LEAST_SUM in graph/ops/routing.py.
constexpr double least_sum = 0x1p-14;

double gate(Gating gating, double logit, double top) {
    switch (gating) {
    case Gating::softmax: return std::exp(logit - top);
    case Gating::sigmoid: return 1 / (1 + std::exp(-logit));
    case Gating::softmax_chosen: return logit;
    case Gating::sqrt_softplus:
        return std::sqrt(std::max(logit, 0.0) + std::log1p(std::exp(-std::fabs(logit))));
    }
    return 0;
}

int best_of(const std::vector<double> &values) {
    return static_cast<int>(std::max_element(values.begin(), values.end()) - values.begin());
}

}  // namespace

void Routing::check(const Fields &of, int n_experts) const {
    of.require(n_groups > 0 && fold > 0 && n_experts % n_groups == 0 && n_experts % fold == 0,
               "groups of experts don't divide their number");
    of.require(1 <= n_groups_used && n_groups_used <= n_groups && 1 <= n_used &&
                   n_used <= n_experts / n_groups * n_groups_used,
               "more experts are used than there are to choose from");
    of.require((router_b.n == 0 || router_b.n == n_experts) &&
                   (select_b.n == 0 || select_b.n == n_experts),
               "the biases have another size than the experts");
}

Router::Router(const Routing &routing, int n_experts)
    : r_(routing), n_experts_(n_experts), p_(n_experts), score_(n_experts),
      picked_(routing.n_used), worth_(routing.n_groups) {}

void Router::choose(const float *logits, const float *given, int32_t *chosen, float *weight) {
    probabilities(logits);
    for (int e = 0; e < n_experts_; e++) {
        score_[e] = p_[e] + (r_.select_b.n ? r_.select_b.data[e] : 0.0f);
        // NaN and -infinity become the least score, so that no expert is chosen twice.
        if (!(score_[e] > least)) score_[e] = least;
    }
    for (int i = 0; given && i < r_.n_used; i++) {
        // The comparison makes NaN 0.
        const float e = given[i] > 0 ? std::min<float>(given[i], n_experts_ - 1) : 0.0f;
        score_[static_cast<int>(e)] = std::numeric_limits<double>::max();
    }
    if (r_.n_groups > 1) mask_groups();
    const bool of_logits = r_.gating == Gating::softmax_chosen;
    double sum = 0, top = 0;
    for (int i = 0; i < r_.n_used; i++) {
        const int e = best_of(score_);
        score_[e] = none;
        chosen[i] = e / r_.fold;
        double &p = picked_[i] = p_[chosen[i]];
        if (i == 0) top = p;
        if (of_logits) p = std::exp(p - top);
        sum += p;
    }
    double factor = r_.scale;
    if (of_logits) factor /= sum;
    if (r_.normalize) factor /= of_logits ? 1.0 : std::max(sum, least_sum);
    for (int i = 0; i < r_.n_used; i++) weight[i] = static_cast<float>(picked_[i] * factor);
}

void Router::probabilities(const float *logits) {
    for (int e = 0; e < n_experts_; e++)
        p_[e] = logits[e] + (r_.router_b.n ? r_.router_b.data[e] : 0.0f);
    const double top = *std::max_element(p_.begin(), p_.end());
    double sum = 0;
    for (double &p : p_) sum += p = gate(r_.gating, p, top);
    if (r_.gating == Gating::softmax)
        for (double &p : p_) p /= sum;
}

// Keeps only the experts of the groups with the largest sums of their two best.
void Router::mask_groups() {
    const int size = n_experts_ / r_.n_groups;
    for (int g = 0; g < r_.n_groups; g++) {
        double first = none, second = none;
        for (int e = g * size; e < (g + 1) * size; e++) {
            second = std::max(second, std::min(first, score_[e]));
            first = std::max(first, score_[e]);
        }
        worth_[g] = size > 1 ? first + second : first;
    }
    for (int i = 0; i < r_.n_groups_used; i++) worth_[best_of(worth_)] = none;
    for (int g = 0; g < r_.n_groups; g++)
        if (worth_[g] != none) std::fill_n(score_.begin() + g * size, size, none);
}

}  // namespace unladen::cpu
