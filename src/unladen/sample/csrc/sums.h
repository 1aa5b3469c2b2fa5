// Sums and draws in the order of the NumPy definitions (base.py).
#pragma once

#include <cmath>
#include <numbers>

#include "sample/csrc/arithmetic.h"
#include "sample/csrc/candidates.h"
#include "sample/csrc/state.h"

namespace unladen::sample {

// The sum of value(0) .. value(n - 1): 32 interleaved running sums, then the sum of these.
template <class Value>
double ordered_sum(size_t n, Value value) {
    constexpr size_t n_lanes = 32;
    double lanes[n_lanes]{};
    for (size_t i = 0; i < n; i++) lanes[i % n_lanes] += value(i);
    double total = 0;
    for (double lane : lanes) total += lane;
    return total;
}

// How far the logit at `position` is below the largest.
inline double below_max(Candidates &c, size_t position) {
    return double(c.max()) - double(c.logits()[position]);
}

// The mean of below_max, by the weights that weigh() left; `total` is their sum.
inline double mean_below_max(Candidates &c, uint64_t total) {
    return ordered_sum(c.size(), [&](size_t i) {
        return double(c.weights()[i]) * below_max(c, i);
    }) / double(total);
}

// ln of the sum of exp(logit - max), from the sum of the weights.
inline double log_total(uint64_t total) {
    return std::log(double(total)) - kWeightBits * std::numbers::ln2;
}

// Draws a position with a probability proportional to the weights that weigh() left.
inline size_t draw(const Candidates &c, uint64_t total, State &state) {
    __extension__ using Wide = unsigned __int128;
    uint64_t left = uint64_t(Wide{state.random()} * total >> 64);
    const uint64_t *weights = c.weights();
    size_t i = 0;
    while (weights[i] <= left) left -= weights[i++];  // left < sum of weights[i..]
    return i;
}

}  // namespace unladen::sample
