// Finds the place of the largest product of an output head without reading all of it: products of
// the first parts of its rows show which few could be the largest, and only these are completed
// with the second parts.
#pragma once

#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "backends/cpu/csrc/ops/products.h"

namespace unladen::cpu {

class Screening {
public:
    // Rows of activations up to which a head is screened; with more of them, products cost more
    // than reading does.
    static constexpr int most_rows = 4;
    // Groups of interleaved_rows rows that a tile looks at.
    static constexpr int joint_groups = 64;

    // `kernel` has a screen, and w its copy; `packed` is what w meets, `y` where products are left.
    Screening(const Kernels &k, const Linear &kernel, Matrix w, const uint8_t *packed, float *y);

    const Linear &kernel() const { return kernel_; }
    const float *products() const { return y_; }

    // Decides whether the products of this step are those of first parts alone.
    bool begin(const Step &step, int n_rows);
    bool is_on() const { return is_on_; }

    int n_groups() const { return ceil_div(w_.n_rows, interleaved_rows); }
    // Notes that the products [first, last) of all rows of activations are made, whole groups.
    void note(int first, int last);
    // The largest product of each group with row t of the activations, as far as they are made.
    const float *largest_of(int t) const {
        return largest_.data() + static_cast<size_t>(t) * n_groups();
    }

    // Finds the number below which no product can be the largest. All products must be made.
    void compare();
    // Marks those of the groups [first, last), joint_groups at most, that may have the largest
    // product.
    void look(int first, int last);
    // The marked groups, in order; some are complete already.
    std::vector<int> found();
    // Completes the products of a marked group.
    void settle(int group);

private:
    // If more than one group in worth_one_in had to be completed, or more than one row in
    // worth_one_in to be looked at again, screening pauses for some steps: least_paused at first,
    // twice as many each time up to most_paused, and one less for each step in which screening was
    // worth it.
    static constexpr int worth_one_in = 8, least_paused = 4, most_paused = 64;

    // What the products with one row of activations are compared with.
    struct Row {
        int whole;    // a group that is complete
        float least;  // its largest product
        float length, length_left;  // see Lengths
    };

    void learn_reach();
    void complete(int group) const;
    Row row_of(int t);
    // Activation row t as a second look reads it.
    CacheLine *prepared_for(int t);
    void look(const Row &row, int t, int first, int last);
    int n_tops() const { return ceil_div(n_groups(), interleaved_rows); }
    const SecondLook *second() const { return kernel_.screen->second; }
    const float *row(int t) const { return y_ + static_cast<size_t>(t) * w_.n_rows; }

    const Kernels &k_;
    const Linear &kernel_;
    const Packer &packer_;
    Matrix w_;
    const uint8_t *packed_;
    float *y_;
    bool is_on_ = false;
    int n_rows_ = 0, layout_rows_ = 0, left_paused_ = 0, next_paused_ = least_paused;
    std::vector<float> largest_, tops_;  // [n_rows][n_groups]; of one row, [n_tops]
    // How far off the products of each group may be, and how far after a second look, for the first
    // n_learnt_ groups.
    std::vector<float> reach_, reach_left_;
    int n_learnt_ = 0;
    std::array<Row, most_rows> rows_{};
    std::vector<CacheLine> prepared_;
    std::vector<uint8_t> may_be_it_;
    std::atomic<int> n_looked_at_{0};
};

// The screening of a program's output head, where it has one: the product makes it, argmax uses it.
struct HeadScreening {
    std::shared_ptr<Screening> screening;
};

// The kernel that screens w, which then gets a copy; nullptr where there is none.
const Linear *find_screen(const Kernels &k, Matrix &w, Interleaving &interleaving);

}  // namespace unladen::cpu
