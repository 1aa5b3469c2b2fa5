// A mixture of experts in phases: routing, gathering and rounding for each expert, gate and up,
// down, combining. A token's copy for one of its experts is called a slot; slots are in the order
// of experts. Experts are chosen among all. Only those that the node holds get slots, and they are
// counted from the first of these, or as `slot_of` says, which may change between steps.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "backends/cpu/csrc/ops/gated.h"
#include "backends/cpu/csrc/ops/operations.h"
#include "backends/cpu/csrc/ops/products.h"
#include "backends/cpu/csrc/ops/routing.h"

namespace unladen::cpu {
namespace {

// How many rows of an expert a tile multiplies, before rounding up to its kernel's granule.
constexpr int expert_rows_wanted = 64;
// Instead of a slot or an expert's number: the token's expert is on another device.
constexpr int no_slot = -1;

// The node; see class Moe in graph/ops/moe.py.
struct MoeNode {
    Input x;
    const float *seen, *given;  // the router's input; [rows][n_used] experts to choose first, or
                                // nullptr
    Output y;
    Matrix router;            // [n_experts][n_cols]
    Matrix gate, up, down;    // the rows of the experts held, one after another; gate.n_rows is 0
                              // where there is none
    bool merged;              // an expert's rows of gate and up are one matrix, gate first
    bool weigh_input;
    int n_experts, n_held, first_expert;
    Routing routing;
    GatedUnit unit;
    Vector down_scale;  // [n_held] or none
    Vector slot_of;     // [n_experts / fold], which of the held each expert is, or none
    uint8_t *scratch;

    explicit MoeNode(Fields &of)
        : x(of.input()), y(of.output()), router(of.matrix("router")),
          down(of.matrix("down", "down_b")), merged(of.has_weight("gate_up")),
          weigh_input(of.flag("weigh_input")), n_experts(router.n_rows), n_held(down.n_stacked),
          first_expert(of.integer("first_expert", 0)), routing(of), unit(of),
          down_scale(of.vector_if("down_scale")), slot_of(of.vector_if("slot_of")),
          scratch(of.scratch()) {
        of.integer("n_elsewhere", 0);
        gate = merged ? of.matrix("gate_up", "gate_b") : of.matrix_if("gate", "gate_b");
        up = of.matrix(merged ? "gate_up" : "up", "up_b");
        std::vector<Input> more = of.inputs();
        const bool has_given = of.flag("given");
        of.require(more.size() >= has_given && more.size() <= 1u + has_given,
                   "it has another number of inputs");
        given = has_given ? more.back().data : nullptr;
        const Input by = more.size() > has_given ? more[0] : x;
        seen = by.data;
        of.require(by.n_cols == router.n_cols && up.n_cols == x.n_cols && y.n_cols == x.n_cols &&
                       down.n_rows == n_held * x.n_cols &&
                       up.n_rows == n_held * down.n_cols * (merged ? 2 : 1) &&
                       (gate.n_rows == 0 || gate.n_rows == up.n_rows),
                   "the weights have other sizes than x and one another");
        of.require(first_expert >= 0 && (down_scale.n == 0 || down_scale.n == n_held),
                   "first_expert or down_scale is out of range");
        routing.check(of, n_experts);
        of.require(slot_of.n == 0 || slot_of.n == n_experts / routing.fold,
                   "slot_of has another size than the experts");
    }

    size_t scratch_bytes(const Sizing &sizing) const;
    void add(Builder &to) const;
};

struct Moe {
    Moe(const Sizing &sizing, const MoeNode &node)
        : k(sizing.kernels),
          a(node),
          max_rows(sizing.max_rows),
          router(linear_kernel(k, a.router.type, true)),
          gate(linear_kernel(k, has_gate() ? a.gate.type : a.up.type, sizing.precise)),
          up(linear_kernel(k, a.up.type, sizing.precise)),
          down(linear_kernel(k, a.down.type, sizing.precise)),
          n(a.up.n_cols),
          n_ff(a.down.n_cols),
          max_slots(max_rows * std::min(a.routing.n_used, a.n_held)),
          first_slot(a.n_held + 1),
          expert_of(max_rows * a.routing.n_used),
          slot_of(expert_of.size()),
          token_of(max_slots),
          weight_of(expert_of.size()),
          weight_at(max_slots),
          active(a.n_held) {
        uint8_t *at = a.scratch;
        auto take = [&at](size_t bytes) { return std::exchange(at, at + whole_lines(bytes)); };
        packed_router = take(packed_bytes(*k.packer(router.act), max_rows, a.router.n_cols));
        logits = reinterpret_cast<float *>(take(sizeof(float) * max_rows * a.n_experts));
        packed_gate = take(room_for_slots(gate.act, n));
        packed_up = up.act == gate.act ? packed_gate : take(room_for_slots(up.act, n));
        hidden = reinterpret_cast<float *>(take(sizeof(float) * max_slots * n_ff));
        packed_down = take(room_for_slots(down.act, n_ff));
        results = reinterpret_cast<float *>(take(sizeof(float) * max_slots * n));
        scratch_bytes = at - a.scratch;
    }

    // Bytes for every expert's slots, rounded separately; each expert may waste a granule.
    size_t room_for_slots(ActFormat format, int n_cols) const {
        return a.n_held * expert_stride_slack(format, n_cols) +
               packed_bytes(*k.packer(format), max_slots, n_cols);
    }
    size_t expert_stride_slack(ActFormat format, int n_cols) const {
        const Packer &packer = *k.packer(format);
        return whole_lines(packed_bytes(packer, packer.granule, n_cols)) + 64;
    }
    bool has_gate() const { return a.gate.n_rows > 0; }
    int slots(int expert) const { return first_slot[expert + 1] - first_slot[expert]; }
    int n_slots() const { return first_slot.back(); }

    // Sets the offset of each active expert's rounded activations.
    void place(const Step &step, std::vector<size_t> &offsets, ActFormat format,
               int n_cols) const {
        offsets.assign(1, 0);
        for (int i = 0; i < n_active; i++) {
            const Packer &packer = *k.packer(format);
            int n_slots = layout_rows(step, packer, slots(active[i]));
            offsets.push_back(offsets.back() + whole_lines(packer.bytes(n_slots, n_cols)));
        }
    }

    const Kernels &k;
    MoeNode a;
    int max_rows;
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
    std::vector<float> weight_of;      // [n_rows * n_used], factor of a result
    std::vector<float> weight_at;      // [slots], factor of an expert's input
    std::vector<int32_t> active;       // held experts with slots, [n_active]
    std::vector<size_t> gate_at, up_at, down_at;
};

using MoePtr = std::shared_ptr<Moe>;

class Route final : public Operation {
public:
    explicit Route(MoePtr m) : m_(std::move(m)), router_(m_->a.routing, m_->a.n_experts) {}

    Tiling prepare(const Step &step) override {
        m_->n_rows = count(step, m_->a.x.rows);
        return {m_->n_rows ? 1 : 0, 0};
    }
    void tile(const Step &step, int, void *) override {
        const MoeNode &a = m_->a;
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
        const MoeNode &a = m_->a;
        int32_t *chosen = m_->expert_of.data() + t * a.routing.n_used;
        router_.choose(m_->logits + static_cast<size_t>(t) * a.n_experts,
                       a.given ? a.given + t * a.routing.n_used : nullptr, chosen,
                       m_->weight_of.data() + t * a.routing.n_used);
        for (int i = 0; i < a.routing.n_used; i++) {
            int held = a.slot_of.n ? static_cast<int>(a.slot_of.data[chosen[i]])
                                   : chosen[i] - a.first_expert;
            chosen[i] = held >= 0 && held < a.n_held ? held : no_slot;
        }
    }

    MoePtr m_;
    Router router_;
    std::vector<int32_t> next_;
};

// Rounds every active expert's slots: rows of x by token, or the hidden rows in their order.
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
          tile_rows_(ceil_div(std::min(expert_rows_wanted, n_rows), granule) * granule),
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
        return 2 * sizeof(float) * std::max<size_t>(m_->max_rows * tile_rows_, m_->n_ff);
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
    // Writes hidden numbers of a slot of expert e, from `first` on, from its products.
    void join(int e, int slot, int first, int width, float *gate, float *up) {
        float *hidden = m_->hidden + static_cast<size_t>(slot) * m_->n_ff + first;
        const float factor = m_->a.weigh_input ? m_->weight_at[slot] : 1;
        finish(up, m_->a.up.bias, e, first, width, factor);
        if (!m_->has_gate()) {
            m_->k.activate(hidden, up, width, m_->a.unit.act);
            return;
        }
        finish(gate, m_->a.gate.bias, e, first, width, factor);
        m_->a.unit.cut(gate, up, width);
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
        const MoeNode &a = m_->a;
        size_t n = m_->n;
        float *y = a.y.row(t);
        std::memset(y, 0, sizeof(float) * n);
        for (int i = t * a.routing.n_used; i < (t + 1) * a.routing.n_used; i++) {
            if (m_->slot_of[i] == no_slot) continue;
            int e = m_->expert_of[i];
            float weight = m_->weight_of[i];
            m_->k.scale_add(y, m_->results + m_->slot_of[i] * n, m_->n,
                            weight * (a.down_scale.n ? a.down_scale.data[e] : 1.0f));
            if (a.down.bias) m_->k.scale_add(y, a.down.bias + e * n, m_->n, weight);
        }
    }

private:
    MoePtr m_;
};

size_t MoeNode::scratch_bytes(const Sizing &sizing) const {
    return Moe(sizing, *this).scratch_bytes;
}

// The phases in the order in which they run.
void MoeNode::add(Builder &to) const {
    MoeNode node = *this;
    const Sizing &sizing = to.sizing();
    const int n_ff = down.n_cols, n = up.n_cols;
    if (merged)
        node.up.data += n_ff * linear_kernel(to.kernels(), up.type, sizing.precise).row_bytes(n);
    node.gate = to.with_copy(node.gate, n_ff);
    node.up = to.with_copy(node.up, n_ff);
    node.down = to.with_copy(node.down, n);
    auto m = std::make_shared<Moe>(sizing, node);
    to.add(make_pack(m->k, {m->k.packer(m->router.act), seen, router.n_cols, std::nullopt,
                            m->packed_router}, x.rows));
    Product logits;
    logits.weights = {router};
    logits.packed = {m->packed_router};
    logits.y = {m->logits};
    logits.rows = x.rows;
    logits.precise = true;
    logits.max_rows = sizing.max_rows;
    to.add(make_product(m->k, std::move(logits)));
    to.add(std::make_unique<Route>(m));
    to.add(std::make_unique<PackSlots>(m, m->gate.act, x.data, m->n, true, &Moe::gate_at,
                                       m->packed_gate));
    if (m->packed_up != m->packed_gate)
        to.add(std::make_unique<PackSlots>(m, m->up.act, x.data, m->n, true, &Moe::up_at,
                                           m->packed_up));
    to.add(std::make_unique<GateUp>(m));
    to.add(std::make_unique<PackSlots>(m, m->down.act, m->hidden, m->n_ff, false, &Moe::down_at,
                                       m->packed_down));
    to.add(std::make_unique<Down>(m));
    to.add(std::make_unique<Combine>(m));
}

const Registered<MoeNode> registered("moe");

}  // namespace
}  // namespace unladen::cpu
