// The place of each row's largest number: what a greedy choice needs of the logits.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/csrc/ops/screening.h"

namespace unladen::cpu {
namespace {

// What the phases share.
struct Argmax {
    const Kernels &k;
    const float *x;
    int n;
    std::shared_ptr<Screening> screening;
    int32_t *y;
    int n_rows = 0;
    std::vector<float> largest{};  // [n_rows][n_groups]
    std::vector<float> tops{};     // [n_rows][n_tops], of as many groups each, as Look leaves them

    int n_groups() const { return ceil_div(n, interleaved_rows); }
    int n_tops() const { return ceil_div(n_groups(), interleaved_rows); }
    const float *row(int t) const { return x + static_cast<size_t>(t) * n; }
    float *largest_of(int t) { return largest.data() + static_cast<size_t>(t) * n_groups(); }
    float *tops_of(int t) { return tops.data() + static_cast<size_t>(t) * n_tops(); }
    bool screens() const { return n_rows && screening && screening->is_on(); }

    // Looks at one group's numbers again.
    void refresh(int group) {
        const int first = group * interleaved_rows;
        for (int t = 0; t < n_rows; t++)
            k.largest(largest_of(t) + group, row(t) + first, std::min(interleaved_rows, n - first));
    }
};
using Shared = std::shared_ptr<Argmax>;

// Finds the largest of each group.
class Look final : public Operation {
public:
    explicit Look(Shared all) : a_(std::move(all)), n_parts_(ceil_div(a_->n, part_size)) {}

    Tiling prepare(const Step &step) override {
        a_->n_rows = step.chooses ? step.n_outputs : 0;
        a_->largest.resize(static_cast<size_t>(a_->n_rows) * a_->n_groups());
        a_->tops.resize(static_cast<size_t>(a_->n_rows) * a_->n_tops());
        return {a_->n_rows * n_parts_, 0.1 * a_->n_rows * a_->n};
    }
    void tile(const Step &, int index, void *) override {
        const int t = index / n_parts_, first = index % n_parts_ * part_size;
        const int n = std::min(part_size, a_->n - first), group = first / interleaved_rows;
        float *largest = a_->largest_of(t) + group;
        a_->k.largest(largest, a_->row(t) + first, n);
        a_->k.largest(a_->tops_of(t) + group / interleaved_rows, largest,
                      ceil_div(n, interleaved_rows));
    }

private:
    static constexpr int part_size = 256 * interleaved_rows;

    Shared a_;
    int n_parts_;
};

// Makes groups whole that may have the largest number, as far as one can tell.
class Complete final : public Operation {
public:
    explicit Complete(Shared all) : a_(std::move(all)) {}

    Tiling prepare(const Step &) override {
        groups_.clear();
        if (a_->screens()) groups_ = a_->screening->find(a_->largest, a_->tops);
        are_whole_.assign(groups_.size(), 0);
        return {static_cast<int>(groups_.size()), 2000.0 * groups_.size()};
    }
    void tile(const Step &, int index, void *) override {
        if (!a_->screening->settle(groups_[index])) return;
        a_->refresh(groups_[index]);
        are_whole_[index] = 1;
    }
    const std::vector<int> &groups() const { return groups_; }
    bool is_whole(size_t i) const { return are_whole_[i]; }

private:
    Shared a_;
    std::vector<int> groups_;
    std::vector<uint8_t> are_whole_;
};

// Chooses of those whose numbers are whole.
class Choose final : public Operation {
public:
    Choose(Shared all, const Complete &found) : a_(std::move(all)), found_(found) {}

    Tiling prepare(const Step &) override {
        whole_.clear();
        if (a_->screens()) {
            for (size_t i = 0; i < found_.groups().size(); i++)
                if (found_.is_whole(i)) whole_.push_back(found_.groups()[i]);
            a_->screening->judge(static_cast<int>(found_.groups().size()),
                                 static_cast<int>(whole_.size()));
        }
        for (int t = 0; t < a_->n_rows; t++) a_->y[t] = chosen(t);
        return {0, 0};
    }
    void tile(const Step &, int, void *) override {}

private:
    int32_t chosen(int t) const {
        const float *row = a_->row(t), *largest = a_->largest_of(t), *tops = a_->tops_of(t);
        float most = -std::numeric_limits<float>::infinity();
        int group = 0;
        bool has_nan = false;
        const auto look = [&](float top, int at) {
            has_nan |= top != top;
            if (top > most) most = top, group = at;
        };
        if (a_->screens())
            for (int at : whole_) look(largest[at], at);
        else
            for (int i = 0; i < a_->n_tops(); i++) look(tops[i], i * interleaved_rows);
        if (has_nan || !std::isfinite(most)) return -1;
        // The first of the top's groups that has it, and there the first number.
        while (largest[group] != most) group++;
        const float *first = row + group * interleaved_rows;
        return static_cast<int32_t>(std::find(first, row + a_->n, most) - row);
    }

    Shared a_;
    const Complete &found_;
    std::vector<int> whole_;
};

}  // namespace

std::vector<OperationPtr> make_argmax(const Kernels &k, const float *x, int n,
                                      std::shared_ptr<Screening> screening, int32_t *y) {
    auto all = std::make_shared<Argmax>(Argmax{k, x, n, std::move(screening), y});
    auto whole = std::make_unique<Complete>(all);
    auto choose = std::make_unique<Choose>(all, *whole);
    std::vector<OperationPtr> phases;
    phases.push_back(std::make_unique<Look>(all));
    phases.push_back(std::move(whole));
    phases.push_back(std::move(choose));
    return phases;
}

}  // namespace unladen::cpu
