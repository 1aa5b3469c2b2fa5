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

Screening::Screening(const Kernels &k, const Linear &kernel, Matrix w, const uint8_t *packed,
                     float *y)
    : k_(k), kernel_(kernel), packer_(*k.packer(kernel.act)), w_(std::move(w)), packed_(packed),
      y_(y), tops_(n_tops()), reach_(n_groups()), reach_left_(n_groups()),
      prepared_(second() ? most_rows * second()->n_lines(w_.n_cols) : 0),
      may_be_it_(n_groups()) {}

bool Screening::begin(const Step &step, int n_rows) {
    n_rows_ = n_rows;
    layout_rows_ = layout_rows(step, packer_, n_rows);
    is_on_ = step.chooses && !step.shows_logits && n_rows <= most_rows &&
             layout_rows_ <= kernel_.screen->most_rows && w_.copy->n_done > 0;
    if (is_on_ && left_paused_ > 0) {
        --left_paused_;
        is_on_ = false;
    }
    if (is_on_) largest_.resize(static_cast<size_t>(n_rows) * n_groups());
    return is_on_;
}

void Screening::note(int first, int last) {
    for (int t = 0; t < n_rows_; t++)
        k_.largest(largest_.data() + static_cast<size_t>(t) * n_groups() + first / interleaved_rows,
                   row(t) + first, last - first);
}

void Screening::complete(int group) const {
    const int first = group * interleaved_rows;
    multiply(kernel_, w_, 0, y_, w_.n_rows, first, std::min(w_.n_rows, first + interleaved_rows),
             packed_, layout_rows_, 0, n_rows_);
}

// Reads the known numbers of the groups that are divided by now. The products of other groups are
// complete, so their errors are 0.
void Screening::learn_reach() {
    const int n_divided = static_cast<int>(w_.copy->n_done / w_.copy->row_bytes()) /
                          interleaved_rows;
    for (; n_learnt_ < n_divided; n_learnt_++) {
        const float *of = w_.copy->known.data() + static_cast<size_t>(n_learnt_) * kernel_.n_known;
        reach_[n_learnt_] = of[0];
        if (second()) reach_left_[n_learnt_] = of[1];
    }
}

Screening::Row Screening::row_of(int t) {
    const float *largest = largest_of(t);
    k_.largest(tops_.data(), largest, n_groups());
    const auto top = std::max_element(tops_.begin(), tops_.end()) - tops_.begin();
    const int from = static_cast<int>(top) * interleaved_rows;
    const int to = std::min(n_groups(), from + interleaved_rows);
    const int whole = static_cast<int>(std::max_element(largest + from, largest + to) - largest);
    complete(whole);
    const int first = whole * interleaved_rows;
    const int last = std::min(w_.n_rows, first + interleaved_rows);
    const float least = *std::max_element(row(t) + first, row(t) + last);
    const Lengths lengths = kernel_.screen->lengths(packed_, layout_rows_, w_.n_cols, t);
    if (second()) second()->prepare(prepared_for(t), packed_, layout_rows_, w_.n_cols, t);
    return {whole, least, static_cast<float>(lengths.first), static_cast<float>(lengths.left)};
}

CacheLine *Screening::prepared_for(int t) {
    return prepared_.data() + t * second()->n_lines(w_.n_cols);
}

void Screening::compare() {
    learn_reach();
    n_looked_at_ = 0;
    std::fill(may_be_it_.begin(), may_be_it_.end(), 0);
    for (int t = 0; t < n_rows_; t++) {
        rows_[t] = row_of(t);
        may_be_it_[rows_[t].whole] = 1;
    }
}

void Screening::look(int first, int last) {
    for (int t = 0; t < n_rows_; t++) look(rows_[t], t, first, last);
}

// Marks all groups whose product isn't certainly smaller, so also those with NaN.
void Screening::look(const Row &than, int t, int first, int last) {
    const float *largest = largest_of(t), *y = row(t);
    int32_t rows[joint_groups * interleaved_rows];
    int n = 0;
    for (int g = first; g < last; g++) {
        const float off = reach_[g] * than.length;
        if (largest[g] + off < than.least || may_be_it_[g]) continue;
        if (second() && g < n_learnt_)
            n += second()->in_question(rows + n, y + g * interleaved_rows, g * interleaved_rows,
                                       off, than.least);
        else
            may_be_it_[g] = 1;
    }
    if (n == 0) return;
    float more[joint_groups * interleaved_rows], off[joint_groups * interleaved_rows];
    second()->run(more, off, rows, n, w_.copy->weights_at(0), w_.n_cols, prepared_for(t));
    for (int i = 0; i < n; i++) {
        const int g = rows[i] / interleaved_rows;
        const float all = off[i] + reach_left_[g] * than.length_left;
        if (!(y[rows[i]] + more[i] + all < than.least)) may_be_it_[g] = 1;
    }
    n_looked_at_.fetch_add(n, std::memory_order_relaxed);
}

std::vector<int> Screening::found() {
    std::vector<int> found;
    for (int g = 0; g < n_groups(); g++)
        if (may_be_it_[g]) found.push_back(g);
    const bool few = static_cast<int>(found.size()) * worth_one_in <= n_groups() &&
                     n_looked_at_ * worth_one_in <= n_rows_ * w_.n_rows;
    if (!few) left_paused_ = next_paused_;
    next_paused_ = few ? std::max(next_paused_ - 1, least_paused)
                       : std::min(next_paused_ * 2, most_paused);
    return found;
}

void Screening::settle(int group) {
    const auto is_this = [=](const Row &row) { return row.whole == group; };
    if (std::none_of(rows_.begin(), rows_.begin() + n_rows_, is_this)) complete(group);
    const int first = group * interleaved_rows;
    note(first, std::min(w_.n_rows, first + interleaved_rows));
}

}  // namespace unladen::cpu
