// A mixture of experts in phases: route, gather and pack per expert, gate and up, down, combine.
// A token's copy for one of its experts is called a slot; slots stand expert by expert. Experts are
// chosen among all, but only those held get slots, and are counted from the first of them.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "backends/cpu/csrc/ops/ops.h"

namespace unladen::cpu {
namespace {

constexpr int tile_rows_wanted = 64, no_slot = -1;

size_t align64(size_t n) { return (n + 63) / 64 * 64; }

struct Moe {
    Moe(const Kernels &kernels, const MoeArgs &args)
        : k(kernels),
          a(args),
          router(linear_kernel(k, a.router.type, true)),
          gate(linear_kernel(k, has_gate() ? a.gate.type : a.up.type, a.precise)),
          up(linear_kernel(k, a.up.type, a.precise)),
          down(linear_kernel(k, a.down.type, a.precise)),
          n(a.up.n_cols),
          n_ff(a.down.n_cols),
          max_slots(a.max_rows * std::min(a.routing.n_used, a.n_held)),
          first_slot(a.n_held + 1),
          expert_of(a.max_rows * a.routing.n_used),
          slot_of(expert_of.size()),
          token_of(max_slots),
          weight_of(expert_of.size()),
          weight_at(max_slots),
          active(a.n_held) {
        uint8_t *at = a.scratch;
        auto take = [&at](size_t bytes) { return std::exchange(at, at + align64(bytes)); };
        packed_router = take(packed_bytes(*k.packer(router.act), a.max_rows, a.router.n_cols));
        logits = reinterpret_cast<float *>(take(sizeof(float) * a.max_rows * a.n_experts));
        packed_gate = take(room_for_slots(gate.act, n));
        packed_up = up.act == gate.act ? packed_gate : take(room_for_slots(up.act, n));
        hidden = reinterpret_cast<float *>(take(sizeof(float) * max_slots * n_ff));
        packed_down = take(room_for_slots(down.act, n_ff));
        results = reinterpret_cast<float *>(take(sizeof(float) * max_slots * n));
        scratch_bytes = at - a.scratch;
    }

    // Room for every expert's slots packed by themselves: each may waste a granule.
    size_t room_for_slots(ActFormat format, int n_cols) const {
        return a.n_held * expert_stride_slack(format, n_cols) +
               packed_bytes(*k.packer(format), max_slots, n_cols);
    }
    size_t expert_stride_slack(ActFormat format, int n_cols) const {
        const Packer &packer = *k.packer(format);
        return align64(packed_bytes(packer, packer.granule, n_cols)) + 64;
    }
    bool has_gate() const { return a.gate.n_rows > 0; }
    int slots(int expert) const { return first_slot[expert + 1] - first_slot[expert]; }
    int n_slots() const { return first_slot.back(); }

    // Where each active expert's packed activations begin.
    void place(const Step &step, std::vector<size_t> &offsets, ActFormat format,
               int n_cols) const {
        offsets.assign(1, 0);
        for (int i = 0; i < n_active; i++) {
            const Packer &packer = *k.packer(format);
            int n_slots = layout_rows(step, packer, slots(active[i]));
            offsets.push_back(offsets.back() + align64(packer.bytes(n_slots, n_cols)));
        }
    }

    const Kernels &k;
    MoeArgs a;
    const Linear &router, &gate, &up, &down;
    int n, n_ff, max_slots, n_active = 0, n_rows = 0;
    uint8_t *packed_router, *packed_gate, *packed_up, *packed_down;
    float *logits, *hidden, *results;
    size_t scratch_bytes;
    std::vector<int32_t> first_slot;   // [n_held + 1]
    std::vector<int32_t> expert_of;    // [n_rows * n_used], a token's, best first, counted from
                                       // the first held; or no_slot
    std::vector<int32_t> slot_of;      // [n_rows * n_used], or no_slot
    std::vector<int32_t> token_of;     // [slots]
    std::vector<float> weight_of;      // [n_rows * n_used], of a result
    std::vector<float> weight_at;      // [slots], of what the expert gets
    std::vector<int32_t> active;       // held experts with slots, [n_active]
    std::vector<size_t> gate_at, up_at, down_at;
};

using MoePtr = std::shared_ptr<Moe>;

class Route final : public Operation {
public:
    explicit Route(MoePtr m) : m_(std::move(m)), router_(m_->a.routing, m_->a.n_experts) {}

    Tiling prepare(const Step &step) override {
        m_->n_rows = count(step, m_->a.rows);
        return {m_->n_rows ? 1 : 0, 0};
    }
    void tile(const Step &step, int, void *) override {
        const MoeArgs &a = m_->a;
        for (int t = 0; t < m_->n_rows; t++) choose(t);
        std::fill(m_->first_slot.begin(), m_->first_slot.end(), 0);
        int n_chosen = m_->n_rows * a.routing.n_used;
        for (int i = 0; i < n_chosen; i++)
            if (m_->expert_of[i] != no_slot) m_->first_slot[m_->expert_of[i] + 1]++;
        std::partial_sum(m_->first_slot.begin(), m_->first_slot.end(), m_->first_slot.begin());
        next_ = m_->first_slot;
        for (int i = 0; i < n_chosen; i++) {
            int slot = m_->expert_of[i] == no_slot ? no_slot : next_[m_->expert_of[i]]++;
            m_->slot_of[i] = slot;
            if (slot == no_slot) continue;
            m_->token_of[slot] = i / a.routing.n_used;
            m_->weight_at[slot] = m_->weight_of[i];
            if (a.weigh_input) m_->weight_of[i] = 1;
        }
        m_->n_active = 0;
        for (int e = 0; e < a.n_held; e++)
            if (m_->slots(e)) m_->active[m_->n_active++] = e;
        m_->place(step, m_->gate_at, m_->gate.act, m_->n);
        m_->place(step, m_->up_at, m_->up.act, m_->n);
        m_->place(step, m_->down_at, m_->down.act, m_->n_ff);
    }

private:
    void choose(int t) {
        const MoeArgs &a = m_->a;
        int32_t *chosen = m_->expert_of.data() + t * a.routing.n_used;
        router_.choose(m_->logits + static_cast<size_t>(t) * a.n_experts,
                       a.given ? a.given + t * a.routing.n_used : nullptr, chosen,
                       m_->weight_of.data() + t * a.routing.n_used);
        for (int i = 0; i < a.routing.n_used; i++) {
            int held = chosen[i] - a.first_expert;
            chosen[i] = held >= 0 && held < a.n_held ? held : no_slot;
        }
    }

    MoePtr m_;
    Router router_;
    std::vector<int32_t> next_;
};

// Packs every active expert's slots: of x by token, or of the hidden rows as they stand.
class PackSlots final : public Operation {
public:
    PackSlots(MoePtr m, ActFormat format, const float *x, int n_cols, bool by_token,
              std::vector<size_t> Moe::*offsets, uint8_t *packed)
        : m_(std::move(m)), packer_(*m_->k.packer(format)), x_(x), n_cols_(n_cols),
          by_token_(by_token), offsets_(offsets), packed_(packed) {}

    Tiling prepare(const Step &) override {
        return {m_->n_active, m_->n_slots() * n_cols_ * 0.2};
    }
    void tile(const Step &step, int index, void *) override {
        int e = m_->active[index], n = m_->slots(e), first = m_->first_slot[e];
        const int32_t *rows = by_token_ ? m_->token_of.data() + first : nullptr;
        const float *x = by_token_ ? x_ : x_ + static_cast<size_t>(first) * n_cols_;
        packer_.pack(packed_ + ((*m_).*offsets_)[index], {x, static_cast<size_t>(n_cols_), rows},
                     layout_rows(step, packer_, n), n_cols_, 0, n, 0, n_cols_);
    }

private:
    MoePtr m_;
    const Packer &packer_;
    const float *x_;
    int n_cols_;
    bool by_token_;
    std::vector<size_t> Moe::*offsets_;
    uint8_t *packed_;
};

// Tiles over (active expert) x (some of its rows).
class ExpertTiles : public Operation {
public:
    ExpertTiles(MoePtr m, int n_rows, int granule, double ns_per_slot)
        : m_(std::move(m)), n_rows_(n_rows), ns_per_slot_(ns_per_slot),
          tile_rows_(ceil_div(std::min(tile_rows_wanted, n_rows), granule) * granule),
          tiles_per_expert_(ceil_div(n_rows, tile_rows_)) {}

    Tiling prepare(const Step &) override {
        return {m_->n_active * tiles_per_expert_, m_->n_slots() * ns_per_slot_, m_->n_rows == 1};
    }
    void tile(const Step &step, int index, void *scratch) override {
        tiles(step, index, index + 1, scratch);
    }
    // Those of an expert at once: of one token, or one tile.
    void tiles(const Step &step, int first, int last, void *scratch) override {
        while (first < last) {
            const int active = first / tiles_per_expert_, begin = active * tiles_per_expert_;
            const int end = std::min(last, begin + tiles_per_expert_);
            expert_tile(step, active, (first - begin) * tile_rows_,
                        std::min(n_rows_, (end - begin) * tile_rows_),
                        static_cast<float *>(scratch));
            first = end;
        }
    }

protected:
    int laid_out(const Step &step, const Linear &kernel, int n) const {
        return layout_rows(step, *m_->k.packer(kernel.act), n);
    }
    virtual void expert_tile(const Step &step, int active, int first, int last,
                             float *scratch) = 0;

    MoePtr m_;
    int n_rows_;
    double ns_per_slot_;
    int tile_rows_, tiles_per_expert_;
};

class GateUp final : public ExpertTiles {
public:
    explicit GateUp(const MoePtr &m)
        : ExpertTiles(m, m->n_ff, std::lcm(m->gate.row_granule, m->up.row_granule),
                      0.06 * m->n_ff * m->n),
          rows_apart_(m->a.merged ? 2 * m->n_ff : m->n_ff) {}
    size_t scratch_bytes() const override {
        return 2 * sizeof(float) * std::max<size_t>(m_->a.max_rows * tile_rows_, m_->n_ff);
    }

private:
    void expert_tile(const Step &step, int active, int first, int last,
                     float *scratch) override {
        int e = m_->active[active], n = m_->slots(e);
        size_t width = last - first;
        float *gate = scratch, *up = scratch + width * n;
        if (m_->has_gate())
            multiply(m_->gate, m_->a.gate, rows_apart_ * e, gate - first, width, first, last,
                     m_->packed_gate + m_->gate_at[active], laid_out(step, m_->gate, n), 0, n);
        multiply(m_->up, m_->a.up, rows_apart_ * e, up - first, width, first, last,
                 m_->packed_up + m_->up_at[active], laid_out(step, m_->up, n), 0, n);
        for (int i = 0; i < n; i++)
            join(e, m_->first_slot[e] + i, first, static_cast<int>(width), gate + i * width,
                 up + i * width);
    }
    // The hidden numbers of a slot of expert e, `first` and so on, from its products.
    void join(int e, int slot, int first, int width, float *gate, float *up) {
        float *hidden = m_->hidden + static_cast<size_t>(slot) * m_->n_ff + first;
        const float factor = m_->a.weigh_input ? m_->weight_at[slot] : 1;
        finish(up, m_->a.up.bias, e, first, width, factor);
        if (!m_->has_gate()) {
            m_->k.activate(hidden, up, width, m_->a.unit.act);
            return;
        }
        finish(gate, m_->a.gate.bias, e, first, width, factor);
        cut(m_->a.unit, gate, up, width);
        m_->k.glu(hidden, gate, up, width, m_->a.unit.act);
    }
    void finish(float *y, const float *bias, int e, int first, int width, float factor) const {
        if (factor != 1)
            for (int i = 0; i < width; i++) y[i] *= factor;
        if (bias) m_->k.add(y, y, bias + static_cast<size_t>(e) * m_->n_ff + first, width);
    }

    int rows_apart_;
};

class Down final : public ExpertTiles {
public:
    explicit Down(const MoePtr &m)
        : ExpertTiles(m, m->n, m->down.row_granule, 0.03 * m->n_ff * m->n) {}

private:
    void expert_tile(const Step &step, int active, int first, int last, float *) override {
        int e = m_->active[active], n = m_->slots(e);
        float *y = m_->results + static_cast<size_t>(m_->first_slot[e]) * m_->n;
        multiply(m_->down, m_->a.down, n_rows_ * e, y, m_->n, first, last,
                 m_->packed_down + m_->down_at[active], laid_out(step, m_->down, n), 0, n);
    }
};

class Combine final : public Operation {
public:
    explicit Combine(MoePtr m) : m_(std::move(m)) {}
    Tiling prepare(const Step &) override {
        return {m_->n_rows, m_->n_slots() * m_->n * 0.15};
    }
    void tile(const Step &, int t, void *) override {
        const MoeArgs &a = m_->a;
        size_t n = m_->n;
        float *y = a.y + t * n;
        std::memset(y, 0, sizeof(float) * n);
        for (int i = t * a.routing.n_used; i < (t + 1) * a.routing.n_used; i++) {
            if (m_->slot_of[i] == no_slot) continue;
            int e = m_->expert_of[i];
            float weight = m_->weight_of[i];
            m_->k.scale_add(y, m_->results + m_->slot_of[i] * n, m_->n,
                            weight * (a.down_scale ? a.down_scale[e] : 1.0f));
            if (a.down.bias) m_->k.scale_add(y, a.down.bias + e * n, m_->n, weight);
        }
    }

private:
    MoePtr m_;
};

}  // namespace

size_t moe_scratch_bytes(const Kernels &k, const MoeArgs &args) {
    return Moe(k, args).scratch_bytes;
}

std::vector<OperationPtr> make_moe(const Kernels &k, const MoeArgs &args) {
    auto m = std::make_shared<Moe>(k, args);
    std::vector<OperationPtr> phases;
    phases.push_back(make_pack(k, {k.packer(m->router.act), args.seen, args.router.n_cols,
                                   std::nullopt, m->packed_router}, args.rows));
    LinearArgs router{};
    router.weights = {args.router};
    router.packed = {m->packed_router};
    router.y = {m->logits};
    router.rows = args.rows;
    router.precise = true;
    router.max_rows = args.max_rows;
    phases.push_back(make_linear(k, std::move(router)));
    phases.push_back(std::make_unique<Route>(m));
    phases.push_back(std::make_unique<PackSlots>(m, m->gate.act, args.x, m->n, true, &Moe::gate_at,
                                                 m->packed_gate));
    if (m->packed_up != m->packed_gate)
        phases.push_back(std::make_unique<PackSlots>(m, m->up.act, args.x, m->n, true, &Moe::up_at,
                                                     m->packed_up));
    phases.push_back(std::make_unique<GateUp>(m));
    phases.push_back(std::make_unique<PackSlots>(m, m->down.act, m->hidden, m->n_ff, false,
                                                 &Moe::down_at, m->packed_down));
    phases.push_back(std::make_unique<Down>(m));
    phases.push_back(std::make_unique<Combine>(m));
    return phases;
}

}  // namespace unladen::cpu
