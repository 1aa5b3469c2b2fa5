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

bool Screening::may_be_it(int group) const {
    if (!kernel_.screen->run_again || group >= n_learnt_) return true;
    const int first = group * interleaved_rows;
    float more[most_rows * interleaved_rows];
    kernel_.screen->run_again(more - first, interleaved_rows, w_.copy->weights_at(0), first,
                              first + interleaved_rows, w_.n_cols, packed_, layout_rows_, 0,
                              n_rows_);
    for (int t = 0; t < n_rows_; t++) {
        const float *y = y_ + static_cast<size_t>(t) * w_.n_rows + first;
        const float reach = reach_left_[group] * length_left_[t];
        // What isn't known to be less, NaN for example, may be it.
        for (int i = 0; i < interleaved_rows; i++)
            if (!(y[i] + more[t * interleaved_rows + i] + reach < least_[t])) return true;
    }
    return false;
}

bool Screening::settle(int group) const {
    const auto end = first_whole_.begin() + n_rows_;
    if (std::find(first_whole_.begin(), end, group) != end) return true;
    if (!may_be_it(group)) return false;
    complete(group);
    return true;
}

void Screening::judge(int n_found, int n_whole) {
    const int n_looks = kernel_.screen->run_again ? n_found / looks_for_one : 0;
    if ((n_whole + n_looks) * worth_one_in > n_groups()) left_paused_ = n_paused;
}

// Of groups that lie in parts by now; what the others reach is nothing, for they are whole.
void Screening::learn_reach() {
    const std::vector<float> &known = w_.copy->known;
    const int n_divided = static_cast<int>(w_.copy->n_done / w_.copy->row_bytes()) /
                          interleaved_rows;
    reach_.resize(n_groups());
    reach_left_.resize(n_groups());
    top_reach_.resize(n_tops());
    for (; n_learnt_ < n_divided; n_learnt_++) {
        const float *of = known.data() + static_cast<size_t>(n_learnt_) * kernel_.n_known;
        const float one = of[0];
        reach_[n_learnt_] = one;
        if (kernel_.screen->run_again) reach_left_[n_learnt_] = of[1];
        float &most = top_reach_[n_learnt_ / interleaved_rows];
        if (most == most && !(one <= most)) most = one;  // NaN stays
    }
}

std::vector<int> Screening::find(const std::vector<float> &largest,
                                 const std::vector<float> &tops) {
    learn_reach();
    const int n = n_groups();
    std::vector<int> found;
    for (int t = 0; t < n_rows_; t++) {
        const float *mine = largest.data() + static_cast<size_t>(t) * n;
        const float *top = tops.data() + static_cast<size_t>(t) * n_tops();
        const auto groups_of = [=](int i) {
            const int first = i * interleaved_rows;
            return std::pair(first, std::min(n, first + interleaved_rows));
        };
        const auto [from, to] =
            groups_of(static_cast<int>(std::max_element(top, top + n_tops()) - top));
        const int best = static_cast<int>(std::max_element(mine + from, mine + to) - mine);
        complete(best);
        const float *row = y_ + static_cast<size_t>(t) * w_.n_rows;
        const int first = best * interleaved_rows;
        const float least =
            *std::max_element(row + first, row + std::min(w_.n_rows, first + interleaved_rows));
        const auto length_of = [&](auto kind) {
            return static_cast<float>(kind(packed_, layout_rows_, w_.n_cols, t));
        };
        const float length = length_of(kernel_.screen->length);
        first_whole_[t] = best;
        least_[t] = least;
        if (kernel_.screen->run_again) length_left_[t] = length_of(kernel_.screen->length_left);
        for (int i = 0; i < n_tops(); i++) {
            if (top[i] + top_reach_[i] * length < least) continue;
            const auto [g_first, g_last] = groups_of(i);
            // What isn't known to be less, NaN for example, may be it.
            for (int g = g_first; g < g_last; g++)
                if (!(mine[g] + reach_[g] * length < least)) found.push_back(g);
        }
    }
    if (n_rows_ > 1) {
        std::sort(found.begin(), found.end());
        found.erase(std::unique(found.begin(), found.end()), found.end());
    }
    return found;
}

}  // namespace unladen::cpu
