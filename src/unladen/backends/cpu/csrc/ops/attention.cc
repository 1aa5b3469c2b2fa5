// Softmax attention to the cache.
// It is cut into tiles of a few consecutive tokens of one sequence and one key/value head. If a
// sequence has only a few tokens in a step, it is also cut into ranges of keys, whose shares are
// then merged. The cuts depend on the sequence alone, not on threads or other sequences of the
// step.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

// The window of a token at position p: it sees keys up to p (causal) or all keys, if they are in
// the window. `sliding`: after p - w; `chunked`: from the multiple of w at or below p on;
// `symmetric`: at most w / 2 away.
enum class WindowKind : int32_t { sliding, chunked, symmetric };

}  // namespace

template <>
struct Names<WindowKind> {
    static constexpr const char *what = "kind of window";
    static constexpr const char *all[] = {"sliding", "chunked", "symmetric"};
};

namespace {

// The node; see class Scoring in graph/ops/attention.py.
struct Attention {
    Input q;
    Output y;
    KVView kv;
    int first_column;
    Vector sinks;  // [n_heads] or none
    int n_heads;
    bool is_causal, sees_spans;
    int window;  // w; 0: none
    WindowKind window_kind;
    float scale, softcap;
    std::vector<float> slopes;  // [n_heads] or empty

    explicit Attention(Fields &of)
        : q(of.input()), y(of.output()), kv(of.kv()),
          first_column(of.first_column()), sinks(of.vector_if("sinks")),
          n_heads(of.integer("n_heads")), is_causal(of.flag("causal", true)),
          sees_spans(of.flag("spans")),
          window(of.integer("window", 0)),
          window_kind(of.choice("window_kind", WindowKind::sliding)),
          scale(static_cast<float>(of.number("scale"))),
          softcap(static_cast<float>(of.number("softcap", 0))),
          slopes(slopes_of(of.number("alibi", 0), n_heads)) {
        of.require(n_heads > 0 && kv.n_kv_heads > 0 && n_heads % kv.n_kv_heads == 0,
                   "heads of keys don't divide those of queries");
        of.require(q.n_cols == n_heads * kv.k_dim && y.n_cols == n_heads * kv.v_dim,
                   "q or y has other columns than the cache's heads");
        of.require(sinks.n == 0 || sinks.n == n_heads, "there isn't a sink for each head");
        of.require(window >= 0, "window must be at least 0");
    }

    // Powers of 2^(-alibi / n) for the first n heads, n the largest power of two; then the odd
    // powers of its square root.
    static std::vector<float> slopes_of(double alibi, int n_heads) {
        std::vector<float> slopes;
        if (alibi == 0) return slopes;
        int n = 1;
        while (2 * n <= n_heads) n *= 2;
        for (int i = 1; i <= n; i++)
            slopes.push_back(static_cast<float>(std::pow(2.0, -alibi * i / n)));
        for (int i = 1; i < 2 * (n_heads - n); i += 2)
            slopes.push_back(static_cast<float>(std::pow(2.0, -alibi / 2 * i / n)));
        return slopes;
    }

    void add(Builder &to) const;
};

// The parts into which a step's attention is cut. A program's operations use this memory in turn.
struct AttentionCut {
    struct Group {
        int first, n_tasks;
        bool is_first;  // the first range of its tokens, which counts the sinks
    };
    // A token whose result is merged from shares.
    struct Merge {
        float *out;
        int first_task, step, n_parts;  // its tasks are so many apart
    };

    std::vector<AttentionTask> tasks;
    std::vector<Group> groups;
    std::vector<Merge> merges;
    std::vector<float> parts;
};

using Group = AttentionCut::Group;
using Merge = AttentionCut::Merge;

// The most tokens that share one pass over the keys in prefill, and their most query rows.
constexpr int max_tasks_per_tile = 32, max_rows_per_tile = 256;
// The fewest keys of a range, and the most ranges of a token.
constexpr int range_keys = 1024, max_ranges = 16;

// The rough time of a core, to estimate costs: reading a few keys takes longer than multiplying.
constexpr double ns_per_product = 0.2 / 16, ns_per_number = 2.0 / 16;

struct Span {
    int first, last;
};

// The keys that a token at `index` sees, up to the key `last`, which is its own or a later one.
Span seen(const Attention &v, int index, int last, int n_keys) {
    Span keys{0, v.is_causal ? last + 1 : n_keys};
    if (v.window == 0) return keys;
    switch (v.window_kind) {
    case WindowKind::sliding: keys.first = index - v.window + 1; break;
    case WindowKind::chunked: keys.first = index / v.window * v.window; break;
    case WindowKind::symmetric:
        keys = {index - v.window / 2, std::min(keys.last, index + v.window / 2 + 1)};
        break;
    }
    return {std::max(keys.first, 0), keys.last};
}

class AttentionOperation final : public Operation {
public:
    AttentionOperation(const Kernels &k, const Attention &node, std::shared_ptr<AttentionCut> cut)
        : k_(k), kv_(node.kv), n_heads_(node.n_heads), node_(node), cut_(std::move(cut)) {
        int group = n_heads_ / kv_.n_kv_heads;
        tasks_per_tile_ = std::clamp(max_rows_per_tile / group, 1, max_tasks_per_tile);
    }

    size_t scratch_bytes() const override {
        return sizeof(float) * k_.attention_scratch_floats(n_heads_ / kv_.n_kv_heads,
                                                           tasks_per_tile_, kv_.k_dim,
                                                           kv_.v_dim, kv_.block_tokens);
    }

    Tiling prepare(const Step &step) override {
        tasks_.clear();
        groups_.clear();
        merges_.clear();
        for (int seq = 0; seq < step.n_seqs; seq++) {
            int first = step.q_start[seq], last = step.q_start[seq + 1];
            for (int row = first; row < last; row += tasks_per_tile_) {
                groups_.push_back({static_cast<int>(tasks_.size()),
                                   std::min(tasks_per_tile_, last - row), true});
                for (int i = 0; i < groups_.back().n_tasks; i++) add_task(step, seq, row + i);
            }
            // The number of ranges depends on all of the sequence's tokens in the step.
            if (last - first <= tasks_per_tile_ && !step.one_order) divide(groups_.back());
        }
        place_parts();
        double n_met = 0, n_read = 0;  // keys of all tasks, and of groups, which read them once
        for (auto &task : tasks_) n_met += std::max(0, task.last - task.first);
        for (auto &group : groups_) {
            const int last = tasks_[group.first + group.n_tasks - 1].last;
            n_read += std::max(0, last - tasks_[group.first].first);
        }
        const int n_numbers = kv_.k_dim + kv_.v_dim;
        const double ns = n_met * n_heads_ * n_numbers * ns_per_product +
                          n_read * kv_.n_kv_heads * n_numbers * ns_per_number;
        return {static_cast<int>(groups_.size()) * kv_.n_kv_heads, ns};
    }

    void tile(const Step &step, int index, void *scratch) override {
        // The longest tasks are last in a sequence. They are started first, so that threads end at
        // about the same time.
        int last = static_cast<int>(groups_.size()) - 1;
        const Group &group = groups_[last - index / kv_.n_kv_heads];
        const float *slopes = node_.slopes.empty() ? nullptr : node_.slopes.data();
        const float *sinks = group.is_first ? node_.sinks.data : nullptr;
        AttentionArgs args{kv_, n_heads_, {node_.scale, node_.softcap, slopes, sinks},
                           tasks_.data() + group.first, group.n_tasks, index % kv_.n_kv_heads,
                           static_cast<float *>(scratch), step.one_order};
        k_.attention(args);
    }

    const std::vector<Merge> &merges() const { return merges_; }

    void merge(const Merge &m) const {
        k_.attention_merge(m.out, tasks_[m.first_task].part, m.n_parts, n_heads_, kv_.v_dim);
    }

    double merge_ns() const { return n_heads_ * (10.0 + kv_.v_dim / 8.0); }

private:
    void add_task(const Step &step, int seq, int row) {
        const int index = step.index[row];
        const int last = node_.sees_spans ? step.sees_to[row] : index;
        Span keys = seen(node_, index, last, step.kv_len[seq]);
        tasks_.push_back({node_.q.row(row), node_.y.row(row),
                          step.block_table + seq * step.table_stride + node_.first_column,
                          index, keys.first, keys.last, nullptr});
    }

    // Replaces the last group by one group for each range of its keys, if there are several.
    void divide(Group whole) {
        const size_t end = tasks_.size();
        int first = tasks_[whole.first].first, last = 0;
        for (size_t i = whole.first; i < end; i++) {
            first = std::min(first, tasks_[i].first);
            last = std::max(last, tasks_[i].last);
        }
        const int range = range_keys * ceil_div(last, range_keys * max_ranges);
        const int n_ranges = ceil_div(last, range) - first / range;
        if (n_ranges == 1) return;
        for (int i = 0; i < whole.n_tasks; i++) {
            merges_.push_back({tasks_[whole.first + i].out, whole.first + i, whole.n_tasks,
                               n_ranges});
        }
        const std::vector<AttentionTask> tasks(tasks_.begin() + whole.first, tasks_.end());
        tasks_.resize(whole.first);
        groups_.pop_back();
        for (int i = 0, at = first / range * range; i < n_ranges; i++, at += range) {
            groups_.push_back({static_cast<int>(tasks_.size()), whole.n_tasks, i == 0});
            for (AttentionTask task : tasks) {
                task.first = std::max(task.first, at);
                task.last = std::min(task.last, at + range);
                tasks_.push_back(task);
            }
        }
    }

    void place_parts() {
        const size_t size = static_cast<size_t>(n_heads_) * (kv_.v_dim + 2);
        size_t n_parts = 0;
        for (auto &merge : merges_) n_parts += merge.n_parts;
        parts_.resize(std::max(parts_.size(), n_parts * size));
        float *next = parts_.data();
        for (auto &merge : merges_) {
            for (int i = 0; i < merge.n_parts; i++, next += size)
                tasks_[merge.first_task + i * merge.step].part = next;
        }
    }

    const Kernels &k_;
    KVView kv_;
    int n_heads_, tasks_per_tile_;
    Attention node_;
    std::shared_ptr<AttentionCut> cut_;
    std::vector<AttentionTask> &tasks_ = cut_->tasks;
    std::vector<Group> &groups_ = cut_->groups;
    std::vector<Merge> &merges_ = cut_->merges;
    std::vector<float> &parts_ = cut_->parts;
};

class MergeOperation final : public Operation {
public:
    explicit MergeOperation(const AttentionOperation &parts) : parts_(parts) {}

    Tiling prepare(const Step &) override {
        double ns = 0;
        for (auto &merge : parts_.merges()) ns += merge.n_parts * parts_.merge_ns();
        return {static_cast<int>(parts_.merges().size()), ns};
    }

    void tile(const Step &, int index, void *) override { parts_.merge(parts_.merges()[index]); }

private:
    const AttentionOperation &parts_;
};

void Attention::add(Builder &to) const {
    const auto cut = to.shared<AttentionCut>();
    cut->tasks.reserve(to.sizing().max_rows);
    cut->groups.reserve(to.sizing().max_rows);
    auto parts = std::make_unique<AttentionOperation>(to.kernels(), *this, cut);
    auto merge = std::make_unique<MergeOperation>(*parts);
    to.add(std::move(parts));
    to.add(std::move(merge));
}

const Registered<Attention> registered("attention");

}  // namespace
}  // namespace unladen::cpu
