// The place of each row's largest number: with it a greedy choice needs no logits.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/csrc/ops/operations.h"
#include "backends/cpu/csrc/ops/screening.h"

namespace unladen::cpu {
namespace {

// The data that the phases below share.
struct Argmax {
    const Kernels &k;
    const float *x;
    int n;
    std::shared_ptr<Screening> screening;
    int32_t *y;
    int n_rows = 0;
    // Without screening: the largest of each group, and of each interleaved_rows groups.
    std::vector<float> largest{};  // [n_rows][n_groups]
    std::vector<float> tops{};     // [n_rows][n_tops]

    int n_groups() const { return ceil_div(n, interleaved_rows); }
    int n_tops() const { return ceil_div(n_groups(), interleaved_rows); }
    const float *row(int t) const { return x + static_cast<size_t>(t) * n; }
    float *largest_of(int t) { return largest.data() + static_cast<size_t>(t) * n_groups(); }
    float *tops_of(int t) { return tops.data() + static_cast<size_t>(t) * n_tops(); }
    bool screens() const { return n_rows && screening && screening->is_on(); }
};
using Shared = std::shared_ptr<Argmax>;

// Finds the largest of each group. If the head is screened these are known, and this phase marks
// the groups that may have the largest of all.
class Look final : public Operation {
public:
    explicit Look(Shared all) : a_(std::move(all)) {}

    Tiling prepare(const Step &step) override {
        a_->n_rows = step.chooses ? step.n_outputs : 0;
        const double n = static_cast<double>(a_->n_rows) * a_->n;
        if (a_->screens()) {
            a_->screening->compare();
            return {ceil_div(a_->n_groups(), Screening::joint_groups), n, true};
        }
        a_->largest.resize(static_cast<size_t>(a_->n_rows) * a_->n_groups());
        a_->tops.resize(static_cast<size_t>(a_->n_rows) * a_->n_tops());
        return {a_->n_rows * n_parts(), 0.1 * n};
    }
    void tile(const Step &, int index, void *) override {
        if (a_->screens()) {
            const int first = index * Screening::joint_groups;
            return a_->screening->look(first,
                                       std::min(a_->n_groups(), first + Screening::joint_groups));
        }
        const int t = index / n_parts(), first = index % n_parts() * part_size;
        const int n = std::min(part_size, a_->n - first), group = first / interleaved_rows;
        float *largest = a_->largest_of(t) + group;
        a_->k.largest(largest, a_->row(t) + first, n);
        a_->k.largest(a_->tops_of(t) + group / interleaved_rows, largest,
                      ceil_div(n, interleaved_rows));
    }

private:
    static constexpr int part_size = 256 * interleaved_rows;
    int n_parts() const { return ceil_div(a_->n, part_size); }

    Shared a_;
};

// Completes the products of the marked groups.
class Complete final : public Operation {
public:
    explicit Complete(Shared all) : a_(std::move(all)) {}

    Tiling prepare(const Step &) override {
        groups_.clear();
        if (a_->screens()) groups_ = a_->screening->found();
        return {static_cast<int>(groups_.size()), 2000.0 * groups_.size()};
    }
    void tile(const Step &, int index, void *) override { a_->screening->settle(groups_[index]); }
    const std::vector<int> &groups() const { return groups_; }

private:
    Shared a_;
    std::vector<int> groups_;
};

// Chooses among the groups whose products are complete.
class Choose final : public Operation {
public:
    Choose(Shared all, const Complete &whole) : a_(std::move(all)), whole_(whole) {}

    Tiling prepare(const Step &) override {
        for (int t = 0; t < a_->n_rows; t++) a_->y[t] = chosen(t);
        return {0, 0};
    }
    void tile(const Step &, int, void *) override {}

private:
    int32_t chosen(int t) const {
        const float *row = a_->row(t);
        const float *largest = a_->screens() ? a_->screening->largest_of(t) : a_->largest_of(t);
        float most = -std::numeric_limits<float>::infinity();
        int group = 0;
        bool has_nan = false;
        const auto look = [&](float top, int at) {
            has_nan |= top != top;
            if (top > most) most = top, group = at;
        };
        if (a_->screens())
            for (int at : whole_.groups()) look(largest[at], at);
        else
            for (int i = 0; i < a_->n_tops(); i++) look(a_->tops_of(t)[i], i * interleaved_rows);
        if (has_nan || !std::isfinite(most)) return -1;
        // The first group that has the largest number, and the first such number in it.
        while (largest[group] != most) group++;
        const float *first = row + group * interleaved_rows;
        return static_cast<int32_t>(std::find(first, row + a_->n, most) - row);
    }

    Shared a_;
    const Complete &whole_;
};

struct ArgmaxOp {
    Input x;
    IntOutput y;

    explicit ArgmaxOp(Fields &of) : x(of.input()), y(of.int_output()) {}

    void add(Builder &to) const {
        const std::shared_ptr<Screening> &screening = to.shared<HeadScreening>()->screening;
        const bool is_of_x = screening && screening->products() == x.data;
        auto all = std::make_shared<Argmax>(
            Argmax{to.kernels(), x.data, x.n_cols, is_of_x ? screening : nullptr, y.data});
        auto whole = std::make_unique<Complete>(all);
        auto choose = std::make_unique<Choose>(all, *whole);
        to.add(std::make_unique<Look>(all));
        to.add(std::move(whole));
        to.add(std::move(choose));
    }
};

const Registered<ArgmaxOp> registered("argmax");

}  // namespace
}  // namespace unladen::cpu
