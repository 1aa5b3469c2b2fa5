// The largest of a head's products from the first parts of its rows, and the second parts of the
// few that could have it: the place is that of the largest of all products, made whole.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "backends/cpu/csrc/ops/ops.h"

namespace unladen::cpu {

class Screening {
public:
    // Where rows are more, their products cost more than reading does.
    static constexpr int most_rows = 4;

    // `kernel` has a screen, and w its copy; `packed` is what w meets, `y` where products are left.
    Screening(const Kernels &k, const Linear &kernel, Matrix w, const uint8_t *packed, float *y)
        : kernel_(kernel), packer_(*k.packer(kernel.act)), w_(std::move(w)), packed_(packed),
          y_(y) {}

    const Linear &kernel() const { return kernel_; }
    const float *products() const { return y_; }

    // Whether the products of this step are to be those of the screen.
    bool begin(const Step &step, int n_rows);
    bool is_on() const { return is_on_; }

    int n_groups() const { return ceil_div(w_.n_rows, interleaved_rows); }
    int n_tops() const { return ceil_div(n_groups(), interleaved_rows); }
    // The groups of interleaved_rows rows that may have the largest product, in order, given the
    // largest of each group, [n_rows][n_groups], and of each interleaved_rows groups,
    // [n_rows][n_tops].
    std::vector<int> find(const std::vector<float> &largest, const std::vector<float> &tops);
    // Makes the products of one of these whole, unless a second look shows that it isn't it.
    // Returns whether they are.
    bool settle(int group) const;
    // So many were found, and so many of them made whole.
    void judge(int n_found, int n_whole);

private:
    // If more than one in so many groups had to be made whole, the next steps compute all at once.
    // A second look costs a part of that.
    static constexpr int worth_one_in = 8, n_paused = 64, looks_for_one = 4;

    void learn_reach();
    void complete(int group) const;
    bool may_be_it(int group) const;

    const Linear &kernel_;
    const Packer &packer_;
    Matrix w_;
    const uint8_t *packed_;
    float *y_;
    bool is_on_ = false;
    int n_rows_ = 0, layout_rows_ = 0, left_paused_ = 0;
    // What groups reach, as far as that is learnt, and the most of each interleaved_rows groups;
    // and after a second look, where there is one.
    std::vector<float> reach_, top_reach_, reach_left_;
    int n_learnt_ = 0;
    // Of each row of activations: a group that is whole already, the largest product there, and
    // the row's length after a second look.
    std::array<int, most_rows> first_whole_{};
    std::array<float, most_rows> least_{}, length_left_{};
};

// The kernel with a screen for w, which gets a copy then; nullptr: there is none.
const Linear *find_screen(const Kernels &k, Matrix &w, Interleaving &interleaving);

}  // namespace unladen::cpu
