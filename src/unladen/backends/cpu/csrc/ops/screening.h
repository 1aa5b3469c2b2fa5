// The largest of a head's products from the first parts of its rows, and the second parts of the
// few that could have it: the place is that of the largest of all products, made whole.
#pragma once

#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "backends/cpu/csrc/ops/products.h"

namespace unladen::cpu {

class Screening {
public:
    // Where rows are more, their products cost more than reading does.
    static constexpr int most_rows = 4;
    // Groups of interleaved_rows rows that are looked at together.
    static constexpr int joint_groups = 64;

    // `kernel` has a screen, and w its copy; `packed` is what w meets, `y` where products are left.
    Screening(const Kernels &k, const Linear &kernel, Matrix w, const uint8_t *packed, float *y);

    const Linear &kernel() const { return kernel_; }
    const float *products() const { return y_; }

    // Whether the products of this step are to be those of the screen.
    bool begin(const Step &step, int n_rows);
    bool is_on() const { return is_on_; }

    int n_groups() const { return ceil_div(w_.n_rows, interleaved_rows); }
    // Whoever made the products [first, last) of all rows of activations says so, in whole groups.
    void note(int first, int last);
    // The largest of each group, as far as it is made, with row t of the activations.
    const float *largest_of(int t) const {
        return largest_.data() + static_cast<size_t>(t) * n_groups();
    }

    // All products are made: finds what those that could be the largest must not be less than.
    void compare();
    // Which of the groups [first, last), joint_groups at most, may have the largest product.
    void look(int first, int last);
    // These, in order; some are whole already.
    std::vector<int> found();
    // Makes the products of one of these whole.
    void settle(int group);

private:
    // If more than one group in so many had to be made whole, or more than one row in so many to be
    // looked at again, the next steps compute all at once: at first a few, twice as many each time,
    // and one less for each step where it was worth while.
    static constexpr int worth_one_in = 8, least_paused = 4, most_paused = 64;

    // What one row of activations is compared with.
    struct Row {
        int whole;    // a group that is whole already,
        float least;  // and the largest product there
        float length, length_left;  // see Lengths
    };

    void learn_reach();
    void complete(int group) const;
    Row row_of(int t);
    // Where a second look finds activation row t.
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
    // What groups reach, as far as that is learnt, and after a second look.
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

// The kernel with a screen for w, which gets a copy then; nullptr: there is none.
const Linear *find_screen(const Kernels &k, Matrix &w, Interleaving &interleaving);

}  // namespace unladen::cpu
