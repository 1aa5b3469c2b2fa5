// Attention to the last tokens and to pooled rows, one for each group of tokens before.
#include <algorithm>
#include <memory>

#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

// How many heads read a row together.
constexpr int heads_per_tile = 16;

struct PooledAttention {
    Input q;
    bool is_choosy;  // a second input names the groups that tokens see
    Output y;
    KVView kv;
    int first_column;
    Vector sinks;  // [n_heads] or none
    int n_heads, window, ratio;
    float scale;

    explicit PooledAttention(Fields &of)
        : q(of.input()), is_choosy(of.has_input()), y(of.output()), kv(of.kv()),
          first_column(of.first_column()),
          sinks(of.vector_if("sinks")), n_heads(of.integer("n_heads")),
          window(of.integer("window")), ratio(of.integer("ratio")),
          scale(static_cast<float>(of.number("scale"))) {
        if (is_choosy) of.int_input();
        of.require(q.n_cols == n_heads * kv.k_dim && y.n_cols == q.n_cols && kv.n_kv_heads == 1,
                   "q or y has other columns than the heads");
        of.require(window > 0 && ratio > 0, "window and ratio must be at least 1");
        of.require(sinks.n == 0 || sinks.n == n_heads, "there isn't a sink for each head");
    }

    static const char *limit() { return "all groups of tokens"; }
    bool fits() const { return !is_choosy; }
    void add(Builder &to) const;
};

class PooledAttentionOperation final : public Operation {
public:
    PooledAttentionOperation(const Kernels &k, const PooledAttention &node)
        : k_(k), a_(node), per_tile_(std::min(heads_per_tile, node.n_heads)) {}

    size_t scratch_bytes() const override {
        return sizeof(float) *
               k_.attention_rows_scratch_floats(per_tile_, a_.kv.k_dim, a_.kv.k_dim);
    }

    Tiling prepare(const Step &step) override {
        double n_rows = 0;
        for (int t = 0; t < step.n_tokens; t++)
            n_rows += std::min(a_.window, step.index[t]) + step.index[t] / a_.ratio;
        return {step.n_tokens * ceil_div(a_.n_heads, per_tile_),
                n_rows * a_.n_heads * a_.kv.k_dim * 0.05};
    }

    void tile(const Step &step, int index, void *scratch) override {
        const int n_chunks = ceil_div(a_.n_heads, per_tile_);
        const int t = index / n_chunks, first = index % n_chunks * per_tile_;
        const int position = step.index[t], oldest = std::max(0, position + 1 - a_.window);
        const RowRange ranges[] = {
            {Plane::k, Plane::k, nullptr, oldest, 1, position + 1 - oldest},
            {Plane::v, Plane::v, nullptr, a_.ratio - 1, a_.ratio, (position + 1) / a_.ratio}};
        const size_t at = (static_cast<size_t>(t) * a_.n_heads + first) * a_.kv.k_dim;
        const float *sinks = a_.sinks.n ? a_.sinks.data + first : nullptr;
        k_.attention_rows({a_.kv, a_.q.data + at, a_.y.data + at,
                           step.block_table + step.seq_of[t] * step.table_stride + a_.first_column,
                           ranges, 2,
                           std::min(per_tile_, a_.n_heads - first), a_.kv.k_dim, a_.kv.k_dim,
                           a_.scale, sinks, static_cast<float *>(scratch)});
    }

private:
    const Kernels &k_;
    PooledAttention a_;
    int per_tile_;
};

void PooledAttention::add(Builder &to) const {
    to.add(std::make_unique<PooledAttentionOperation>(to.kernels(), *this));
}

const Registered<PooledAttention> registered("pooled_attention");

}  // namespace
}  // namespace unladen::cpu
