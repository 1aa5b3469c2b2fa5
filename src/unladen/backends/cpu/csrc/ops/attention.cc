// Attention cut into (a few consecutive tokens of one sequence) x (one key/value head).
#include <algorithm>

#include "backends/cpu/csrc/ops/ops.h"

namespace unladen::cpu {
namespace {

// Tokens that share one pass over the keys in prefill; fewer where each has many query rows.
constexpr int max_tasks_per_tile = 32, max_rows_per_tile = 256;

struct Span {
    int first, last;
};

Span seen(const Visibility &v, int position, int n_keys) {
    Span keys{0, v.causal ? position + 1 : n_keys};
    if (v.window == 0) return keys;
    switch (v.kind) {
    case WindowKind::sliding: keys.first = position - v.window + 1; break;
    case WindowKind::chunked: keys.first = position / v.window * v.window; break;
    case WindowKind::symmetric:
        keys = {position - v.window / 2, std::min(keys.last, position + v.window / 2 + 1)};
        break;
    }
    return {std::max(keys.first, 0), keys.last};
}

class AttentionOperation final : public Operation {
public:
    AttentionOperation(const Kernels &k, KVView kv, const float *q, float *y,
                       AttentionOptions options, int max_tokens)
        : k_(k), kv_(kv), q_(q), y_(y), n_heads_(options.n_heads), options_(std::move(options)) {
        int group = n_heads_ / kv_.n_kv_heads;
        tasks_per_tile_ = std::clamp(max_rows_per_tile / group, 1, max_tasks_per_tile);
        tasks_.reserve(max_tokens);
        groups_.reserve(max_tokens);
    }

    size_t scratch_bytes() const override {
        return sizeof(float) * k_.attention_scratch_floats(n_heads_ / kv_.n_kv_heads,
                                                           tasks_per_tile_, kv_.k_dim,
                                                           kv_.v_dim, kv_.block_tokens);
    }

    Tiling prepare(const Step &step) override {
        tasks_.clear();
        groups_.clear();
        double work = 0;
        for (int seq = 0; seq < step.n_seqs; seq++) {
            for (int row = step.q_start[seq]; row < step.q_start[seq + 1]; row++) {
                int offset = row - step.q_start[seq];
                if (offset % tasks_per_tile_ == 0) groups_.push_back({row, 0});
                groups_.back().n_tasks++;
                add_task(step, seq, row);
                work += tasks_.back().last - tasks_.back().first;
            }
        }
        double ns = work * n_heads_ * (kv_.k_dim + kv_.v_dim) / 16 * 0.3;
        return {static_cast<int>(groups_.size()) * kv_.n_kv_heads, ns};
    }

    void tile(const Step &, int index, void *scratch) override {
        // The longest tasks stand last in a sequence: begin with them, so that none is left over.
        int last = static_cast<int>(groups_.size()) - 1;
        const Group &group = groups_[last - index / kv_.n_kv_heads];
        AttentionArgs args{kv_,
                           n_heads_,
                           {options_.scale, options_.softcap,
                            options_.slopes.empty() ? nullptr : options_.slopes.data(),
                            options_.sinks},
                           tasks_.data() + group.first,
                           group.n_tasks,
                           index % kv_.n_kv_heads,
                           static_cast<float *>(scratch)};
        k_.attention(args);
    }

private:
    struct Group {
        int first, n_tasks;
    };

    void add_task(const Step &step, int seq, int row) {
        size_t r = row;
        int position = step.positions[row];
        Span keys = seen(options_.visibility, position, step.kv_len[seq]);
        tasks_.push_back({q_ + r * n_heads_ * kv_.k_dim, y_ + r * n_heads_ * kv_.v_dim,
                          step.block_table + seq * step.table_stride, position, keys.first,
                          keys.last});
    }

    const Kernels &k_;
    KVView kv_;
    const float *q_;
    float *y_;
    int n_heads_, tasks_per_tile_;
    AttentionOptions options_;
    std::vector<AttentionTask> tasks_;
    std::vector<Group> groups_;
};

}  // namespace

OperationPtr make_attention(const Kernels &k, KVView kv, const float *q, float *y,
                            AttentionOptions options, int max_tokens) {
    return std::make_unique<AttentionOperation>(k, kv, q, y, std::move(options), max_tokens);
}

}  // namespace unladen::cpu
