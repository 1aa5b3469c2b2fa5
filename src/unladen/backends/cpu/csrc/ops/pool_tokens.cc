// A row for each group of tokens: their mean, weighted by the softmax of scores.
#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/cpu/csrc/ops/by_sequence.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

// How many channels of a group are pooled together.
constexpr int channels_per_part = 128;

struct PoolTokens {
    Input x, scores;     // [n_tokens][n_groups * width]
    IntInput positions;  // the step's own
    Output y;            // [n_tokens][width]
    Vector place;        // [ratio][n_groups * width]
    Slots slots;
    int ratio, n_groups;

    explicit PoolTokens(Fields &of)
        : x(of.input()), scores(of.input()), positions(of.int_input()), y(of.output()),
          place(of.vector("place")), slots(of.slots()), ratio(of.integer("ratio")),
          n_groups(of.integer("n_groups")) {
        of.require(ratio > 0 && n_groups > 0 && x.n_cols == n_groups * y.n_cols &&
                       scores.n_cols == x.n_cols && place.n == ratio * x.n_cols,
                   "groups don't divide the columns, or the weight has another size");
    }

    int width() const { return y.n_cols; }
    void add(Builder &to) const;
    void run(const Kernels &k, const Part &part, float *scratch) const;
};

// The channels [first, first + n) of one sequence.
class Pooling {
public:
    Pooling(const Kernels &k, const PoolTokens &pool, float *kept, float *scratch, int first, int n)
        : k_(k), a_(pool), kept_(kept), scratch_(scratch), first_(first), n_(n) {}

    // Writes the token of `row`, at `position`, to the state.
    void keep(int row, int position) {
        for (const bool is_score : {false, true}) {
            float *to = at(is_score, position % n_tokens());
            const float *source = (is_score ? a_.scores : a_.x).row(row);
            for (int g = 0; g < a_.n_groups; g++)
                std::memcpy(to + g * a_.width() + first_, source + g * a_.width() + first_,
                            n_ * sizeof(float));
        }
    }

    // Writes to y the row of the group that ends at `position`.
    void pool(float *y, int position) {
        const int begin = std::max(0, position + 1 - n_tokens());
        float *top = scratch_, *total = top + n_, *weight = total + n_;
        std::fill(top, total, -std::numeric_limits<float>::infinity());
        for (int p = begin; p <= position; p++) {
            scores(weight, p, position);
            for (int i = 0; i < n_; i++) top[i] = std::max(top[i], weight[i]);
        }
        std::fill(total, weight, 0.0f);
        std::fill(y, y + n_, 0.0f);
        for (int p = begin; p <= position; p++) {
            scores(weight, p, position);
            for (int i = 0; i < n_; i++) weight[i] -= top[i];
            k_.activate(weight, weight, n_, Activation::exp);
            const float *x = at(false, p % n_tokens()) + column(p, position);
            for (int i = 0; i < n_; i++) {
                total[i] += weight[i];
                y[i] += weight[i] * x[i];
            }
        }
        for (int i = 0; i < n_; i++) y[i] /= total[i];
    }

private:
    int n_columns() const { return a_.n_groups * a_.width(); }
    int n_tokens() const { return a_.n_groups * a_.ratio; }

    float *at(bool is_score, int token) const {
        return kept_ + (static_cast<size_t>(is_score) * n_tokens() + token) * n_columns();
    }

    // Tokens of an earlier group have earlier columns.
    int column(int p, int position) const {
        return (a_.n_groups - 1 - (position - p) / a_.ratio) * a_.width() + first_;
    }

    void scores(float *to, int p, int position) const {
        const float *s = at(true, p % n_tokens()) + column(p, position);
        const float *place = a_.place.data + static_cast<size_t>(p % a_.ratio) * n_columns()
                           + column(p, position);
        for (int i = 0; i < n_; i++) to[i] = s[i] + place[i];
    }

    const Kernels &k_;
    const PoolTokens &a_;
    float *kept_, *scratch_;
    int first_, n_;
};

void PoolTokens::add(Builder &to) const {
    const int n_parts = ceil_div(width(), channels_per_part);
    to.add(by_sequence(slots, n_parts, n_groups * width() * 4.0, 3 * channels_per_part,
                       [a = *this, &k = to.kernels()](const Part &part, float *scratch) {
                           a.run(k, part, scratch);
                       }));
}

void PoolTokens::run(const Kernels &k, const Part &part, float *scratch) const {
    const int first = part.index * channels_per_part;
    const int n = std::min(channels_per_part, width() - first);
    const size_t rows = 2 * static_cast<size_t>(n_groups) * ratio;
    for (size_t row = 0; row < rows * n_groups; row++) carried(part, row * width() + first, n);
    Pooling pooling(k, *this, part.after, scratch, first, n);
    for (int t = 0; t < part.n_tokens; t++) {
        const int row = part.first_row + t, position = part.token_index[t];
        float *out = y.row(row) + first;
        pooling.keep(row, position);
        if ((position + 1) % ratio) {
            std::fill(out, out + n, 0.0f);
        } else {
            pooling.pool(out, position);
        }
    }
}

const Registered<PoolTokens> registered("pool_tokens");

}  // namespace
}  // namespace unladen::cpu
