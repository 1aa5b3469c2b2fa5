#include "backends/cpu/csrc/ops/screening.h"

#include <algorithm>

namespace unladen::cpu {

const Linear *find_screen(const Kernels &k, Matrix &w, Interleaving &interleaving) {
    const Linear *kernel = w.bias ? nullptr : k.screened_linear(w.type.c_str());
    if (!kernel || !kernel->divides(w.n_cols)) return nullptr;
    const InterleavedCopy *copy = interleaving.add(*kernel, w.data, w.n_rows, w.n_cols);
    if (!copy || copy->from != w.data) return nullptr;
    w.copy = copy;
    return kernel;
}

bool Screening::begin(const Step &step, int n_rows) {
    n_rows_ = n_rows;
    layout_rows_ = layout_rows(step, packer_, n_rows);
    is_on_ = step.chooses && !step.shows_logits && n_rows <= most_rows &&
             layout_rows_ <= kernel_.screen->most_rows && w_.copy->n_done > 0;
    if (is_on_ && left_paused_ > 0) {
        --left_paused_;
        is_on_ = false;
    }
    return is_on_;
}

void Screening::complete(int group) const {
    const int first = group * interleaved_rows;
    multiply(kernel_, w_, 0, y_, w_.n_rows, first, std::min(w_.n_rows, first + interleaved_rows),
             packed_, layout_rows_, 0, n_rows_);
}

std::vector<int> Screening::find(const std::vector<float> &largest) {
    const int n = n_groups();
    // Groups that don't lie in parts are whole.
    const std::vector<float> &reach = w_.copy->known;
    const int n_divided = static_cast<int>(w_.copy->n_done / w_.copy->row_bytes()) /
                          interleaved_rows;
    wanted_.assign(n, 0);
    for (int t = 0; t < n_rows_; t++) {
        const float *mine = largest.data() + static_cast<size_t>(t) * n;
        const int best = static_cast<int>(std::max_element(mine, mine + n) - mine);
        complete(best);
        const float *row = y_ + static_cast<size_t>(t) * w_.n_rows;
        const int first = best * interleaved_rows;
        const float least =
            *std::max_element(row + first, row + std::min(w_.n_rows, first + interleaved_rows));
        const float length =
            static_cast<float>(kernel_.screen->length(packed_, layout_rows_, w_.n_cols, t));
        // What isn't known to be less, NaN for example, may be it.
        for (int g = 0; g < n_divided; g++) wanted_[g] |= !(mine[g] + reach[g] * length < least);
        for (int g = n_divided; g < n; g++) wanted_[g] |= !(mine[g] < least);
    }
    std::vector<int> found;
    for (int g = 0; g < n; g++)
        if (wanted_[g]) found.push_back(g);
    if (static_cast<int>(found.size()) * worth_one_in > n) left_paused_ = n_paused;
    return found;
}

}  // namespace unladen::cpu
