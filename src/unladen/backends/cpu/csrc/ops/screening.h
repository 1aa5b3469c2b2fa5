// Finds the largest product of an output head without reading all of it. Coarse products of its
// divided rows show which few rows may have the largest product, and only these are completed with
// their rests.
#pragma once

#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "backends/cpu/csrc/ops/products.h"

namespace unladen::cpu {

class Screening {
public:
    // The most rows of activations for which a head is screened. With more rows, products take
    // longer than reading.
    static constexpr int most_rows = 4;
    // How many groups of interleaved_rows rows a tile looks at.
    static constexpr int joint_groups = 64;

    // `kernel` has a screen, and w has a copy. `packed`: the rounded activations. `y`: the
    // products.
    Screening(const Kernels &k, const Linear &kernel, Matrix w, const uint8_t *packed, float *y);

    const Linear &kernel() const { return kernel_; }
    const float *products() const { return y_; }

    // Decides whether this step computes coarse products.
    bool begin(const Step &step, int n_rows);
    bool is_on() const { return is_on_; }

    int n_groups() const { return ceil_div(w_.n_rows, interleaved_rows); }
    // Notes that the products [first, last), whole groups, of all rows of activations are computed.
    void note(int first, int last);
    // The largest product of each group with row t of the activations, as far as computed.
    const float *largest_of(int t) const {
        return largest_.data() + static_cast<size_t>(t) * n_groups();
    }

    // Finds the number below which no product can be the largest, once all products are computed.
    void compare();
    // Marks those of the groups [first, last), at most joint_groups, that may have the largest
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

    // The numbers with which products with one row of activations are compared.
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
    // The reach of each group, and its reach after a second look, for the first n_learnt_ groups.
    std::vector<float> reach_, reach_left_;
    int n_learnt_ = 0;
    std::array<Row, most_rows> rows_{};
    std::vector<CacheLine> prepared_;
    std::vector<uint8_t> may_be_it_;
    std::atomic<int> n_looked_at_{0};
};

// The screening of a program's output head, if it has one. The product creates it, argmax uses it.
struct HeadScreening {
    std::shared_ptr<Screening> screening;
};

// The kernel that screens w, which then gets a copy; nullptr if there is none.
const Linear *find_screen(const Kernels &k, Matrix &w, Interleaving &interleaving);

}  // namespace unladen::cpu
