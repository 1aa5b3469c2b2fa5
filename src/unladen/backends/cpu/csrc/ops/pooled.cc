// Rows for groups of tokens, and attention to rows of the cache that aren't neighbours.
#include <algorithm>
#include <cstring>
#include <limits>

#include "backends/cpu/csrc/ops/by_sequence.h"

namespace unladen::cpu {
namespace {

// Heads that read a row together.
constexpr int heads_per_tile = 16;

// Channels of a group that are pooled together.
constexpr int channels_per_part = 128;

// The channels [first, first + n) of one sequence.
class Pooling {
public:
    Pooling(const Kernels &k, const PoolArgs &args, float *kept, float *scratch, int first, int n)
        : k_(k), a_(args), kept_(kept), scratch_(scratch), first_(first), n_(n) {}

    // The token of `row` at `position` into the state.
    void keep(int row, int position) {
        for (const float *from : {a_.x, a_.scores}) {
            float *to = at(from == a_.scores, position % n_tokens());
            const float *source = from + static_cast<size_t>(row) * n_columns();
            for (int g = 0; g < a_.n_groups; g++)
                std::memcpy(to + g * a_.width + first_, source + g * a_.width + first_,
                            n_ * sizeof(float));
        }
    }

    // The row of the group that ends at `position`.
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
    int n_columns() const { return a_.n_groups * a_.width; }
    int n_tokens() const { return a_.n_groups * a_.ratio; }

    float *at(bool is_score, int token) const {
        return kept_ + (static_cast<size_t>(is_score) * n_tokens() + token) * n_columns();
    }

    // Tokens of an earlier group have earlier columns.
    int column(int p, int position) const {
        return (a_.n_groups - 1 - (position - p) / a_.ratio) * a_.width + first_;
    }

    void scores(float *to, int p, int position) const {
        const float *s = at(true, p % n_tokens()) + column(p, position);
        const float *place = a_.place + static_cast<size_t>(p % a_.ratio) * n_columns()
                           + column(p, position);
        for (int i = 0; i < n_; i++) to[i] = s[i] + place[i];
    }

    const Kernels &k_;
    const PoolArgs &a_;
    float *kept_, *scratch_;
    int first_, n_;
};

}  // namespace

OperationPtr make_pool_tokens(const Kernels &k, Slots slots, PoolArgs args) {
    const int n_parts = ceil_div(args.width, channels_per_part);
    const double ns = args.n_groups * args.width * 4.0;
    return by_sequence(slots, n_parts, ns, 3 * channels_per_part,
                       [=, &k](const Part &part, float *scratch) {
        const int first = part.index * channels_per_part;
        const int n = std::min(channels_per_part, args.width - first);
        const size_t rows = 2 * static_cast<size_t>(args.n_groups) * args.ratio;
        for (size_t row = 0; row < rows * args.n_groups; row++)
            carried(part, row * args.width + first, n);
        Pooling pooling(k, args, part.after, scratch, first, n);
        for (int t = 0; t < part.n_tokens; t++) {
            const int row = part.first_row + t, position = part.positions[t];
            float *y = args.y + static_cast<size_t>(row) * args.width + first;
            pooling.keep(row, position);
            if ((position + 1) % args.ratio) {
                std::fill(y, y + n, 0.0f);
            } else {
                pooling.pool(y, position);
            }
        }
    });
}

namespace {

class PooledAttentionOperation final : public Operation {
public:
    PooledAttentionOperation(const Kernels &k, KVView kv, const float *q, float *y,
                             PooledAttentionOptions options)
        : k_(k), kv_(kv), q_(q), y_(y), o_(options),
          per_tile_(std::min(heads_per_tile, options.n_heads)) {}

    size_t scratch_bytes() const override {
        return sizeof(float) * k_.attention_rows_scratch_floats(per_tile_, kv_.k_dim, kv_.k_dim);
    }

    Tiling prepare(const Step &step) override {
        double n_rows = 0;
        for (int t = 0; t < step.n_tokens; t++)
            n_rows += std::min(o_.window, step.positions[t]) + step.positions[t] / o_.ratio;
        return {step.n_tokens * ceil_div(o_.n_heads, per_tile_),
                n_rows * o_.n_heads * kv_.k_dim * 0.05};
    }

    void tile(const Step &step, int index, void *scratch) override {
        const int n_chunks = ceil_div(o_.n_heads, per_tile_);
        const int t = index / n_chunks, first = index % n_chunks * per_tile_;
        const int position = step.positions[t], oldest = std::max(0, position + 1 - o_.window);
        const RowRange ranges[] = {
            {Plane::k, Plane::k, nullptr, oldest, 1, position + 1 - oldest},
            {Plane::v, Plane::v, nullptr, o_.ratio - 1, o_.ratio, (position + 1) / o_.ratio}};
        const size_t at = (static_cast<size_t>(t) * o_.n_heads + first) * kv_.k_dim;
        k_.attention_rows({kv_, q_ + at, y_ + at,
                           step.block_table + step.seq_of[t] * step.table_stride, ranges, 2,
                           std::min(per_tile_, o_.n_heads - first), kv_.k_dim, kv_.k_dim, o_.scale,
                           o_.sinks ? o_.sinks + first : nullptr, static_cast<float *>(scratch)});
    }

private:
    const Kernels &k_;
    KVView kv_;
    const float *q_;
    float *y_;
    PooledAttentionOptions o_;
    int per_tile_;
};

}  // namespace

OperationPtr make_pooled_attention(const Kernels &k, KVView kv, const float *q, float *y,
                                   PooledAttentionOptions options) {
    return std::make_unique<PooledAttentionOperation>(k, kv, q, y, options);
}

}  // namespace unladen::cpu
