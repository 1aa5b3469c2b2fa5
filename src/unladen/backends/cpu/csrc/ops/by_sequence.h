// Operations on recurrent state: a tile is one sequence's tokens and some channels or heads.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "backends/cpu/csrc/ops/builder.h"

namespace unladen::cpu {

// The data of a tile. `before`: the sequence's state before the step, nullptr at its begin.
// `after`: the place of its state after the step.
struct Part {
    int index, first_row, n_tokens;
    const int32_t *token_index;  // [n_tokens] in their sequence
    const float *before;
    float *after;
};

template <class Function>
class BySequence final : public Operation {
public:
    BySequence(Slots slots, int n_parts, double ns_per_token, size_t scratch_floats, Function f)
        : slots_(slots), n_parts_(n_parts), ns_per_token_(ns_per_token),
          scratch_floats_(scratch_floats), f_(std::move(f)) {}

    size_t scratch_bytes() const override { return scratch_floats_ * sizeof(float); }

    Tiling prepare(const Step &step) override {
        return {step.n_seqs * n_parts_, step.n_tokens * ns_per_token_};
    }
    void tile(const Step &step, int index, void *scratch) override {
        int seq = index / n_parts_, from = step.state_in[seq], first = step.q_start[seq];
        Part part{index % n_parts_, first, step.q_start[seq + 1] - first,
                  step.index + first, from < 0 ? nullptr : slots_.at(from),
                  slots_.at(step.state_out[seq])};
        f_(part, static_cast<float *>(scratch));
    }

private:
    Slots slots_;
    int n_parts_;
    double ns_per_token_;
    size_t scratch_floats_;
    Function f_;
};

template <class Function>
OperationPtr by_sequence(Slots slots, int n_parts, double ns_per_token, size_t scratch_floats,
                         Function f) {
    return std::make_unique<BySequence<Function>>(slots, n_parts, std::max(1.0, ns_per_token),
                                                  scratch_floats, std::move(f));
}

// How many of `count` channels or heads make a part, if each takes ns_each per token.
inline int per_part(int count, double ns_each) {
    return std::clamp(static_cast<int>(3000 / ns_each), 1, count);
}

// Copies n floats of the state, from `offset` on, from `before` to `after`, and returns their place
// there.
inline float *carried(const Part &part, size_t offset, size_t n) {
    float *state = part.after + offset;
    if (part.before) {
        std::memcpy(state, part.before + offset, n * sizeof(float));
    } else {
        std::memset(state, 0, n * sizeof(float));
    }
    return state;
}

}  // namespace unladen::cpu
