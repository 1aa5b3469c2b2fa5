// unladen._native.cpu: programs over addresses that the Python backend hands in and keeps alive.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <tuple>
#include <utility>

#include "backends/cpu/csrc/cpu.h"
#include "backends/cpu/csrc/names.h"
#include "backends/cpu/csrc/ops/screening.h"
#include "csrc/gil.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace unladen {
namespace cpu {

void bind_kernels(nb::module_ &m);
void bind_quantize(nb::module_ &m);
void bind_moving(nb::module_ &m);
void bind_packing(nb::module_ &m);
void bind_pool(nb::module_ &m);

namespace {

template <class T>
T *at(uintptr_t address) {
    return reinterpret_cast<T *>(address);
}

Rows rows_of(const std::string &symbol) {
    if (symbol == "T") return Rows::tokens;
    if (symbol == "S") return Rows::outputs;
    throw std::invalid_argument("rows are T or S, not " + symbol);
}

using PyMatrix = std::tuple<uintptr_t, std::string, int, int, uintptr_t>;

Matrix matrix_of(const PyMatrix &m) {
    auto &[data, type, n_rows, n_cols, bias] = m;
    return {at<const uint8_t>(data), type, n_rows, n_cols, at<const float>(bias)};
}

using PyKV = std::tuple<uintptr_t, uintptr_t, std::string, std::string, int, int, int, int>;

KVView kv_of(const PyKV &kv) {
    auto &[k, v, k_type, v_type, n_kv_heads, k_dim, v_dim, block_tokens] = kv;
    return {at<uint8_t>(k), at<uint8_t>(v), kv_type_of(k_type), kv_type_of(v_type), n_kv_heads,
            k_dim,          v_dim,          block_tokens};
}

// Whether causal, the window (0: none) and its kind.
using PyVisibility = std::tuple<bool, int, std::string>;

Visibility visibility_of(const PyVisibility &v) {
    auto &[causal, window, kind] = v;
    return {causal, window, window_kind_of(kind)};
}

// Addresses of the factors and of what is added, or 0; their size.
using PyNormWeights = std::tuple<uintptr_t, uintptr_t, int>;

NormWeights norm_weights_of(const PyNormWeights &w) {
    auto &[scale, shift, size] = w;
    return {at<const float>(scale), at<const float>(shift), size};
}

// The address of the factors, or 0, and eps.
using PyRowNorm = std::pair<uintptr_t, float>;

// A program and the step that it runs: the batch's arrays stay where they are.
struct BoundProgram {
    BoundProgram(const std::string &level, int n_threads, int n_threads_batch, int max_rows,
                 bool precise, bool deterministic, const Placement &placement)
        : program(kernels_for(level), n_threads, n_threads_batch,
                  placement.empty() ? nullptr : std::make_shared<Placement>(placement)),
          max_rows(max_rows), precise(precise), attention_cut(make_attention_cut(max_rows)) {
        step.one_order = deterministic;
    }

    Interleaving interleaving;
    Program program;
    Step step;
    int max_rows;
    bool precise;
    std::shared_ptr<AttentionCut> attention_cut;
    std::shared_ptr<Screening> screening;  // of the head, where there is one

    const Kernels &kernels() const { return program.kernels(); }

    // w with what is to become its copy. rows_apart: its parts begin at multiples of so many rows.
    Matrix with_copy(Matrix w, int rows_apart = interleaved_rows) {
        if (w.n_rows && rows_apart % interleaved_rows == 0)
            w.copy = interleaving.add(linear_kernel(kernels(), w.type, precise), w.data, w.n_rows,
                                      w.n_cols);
        return w;
    }

    void bind_batch(uintptr_t positions, uintptr_t seq_of, uintptr_t q_start, uintptr_t kv_len,
                    uintptr_t block_table, int table_stride, uintptr_t state_in,
                    uintptr_t state_out) {
        step.positions = at<const int32_t>(positions);
        step.seq_of = at<const int32_t>(seq_of);
        step.q_start = at<const int32_t>(q_start);
        step.kv_len = at<const int32_t>(kv_len);
        step.block_table = at<const int32_t>(block_table);
        step.table_stride = table_stride;
        step.state_in = at<const int32_t>(state_in);
        step.state_out = at<const int32_t>(state_out);
    }

    // True: done; false: cancelled. Raises what a signal handler raised.
    bool run(int n_tokens, int n_outputs, int n_seqs, bool chooses, bool shows_logits) {
        step.chooses = chooses;
        step.shows_logits = shows_logits;
        step.n_tokens = n_tokens;
        step.n_outputs = n_outputs;
        step.n_seqs = n_seqs;
        Outcome outcome;
        {
            const Unlocked unlocked;
            outcome = program.run(step, is_interrupted);
            // Leaving this scope takes the GIL back; an error set above is still set.
        }
        if (outcome == Outcome::interrupted) throw nb::python_error();
        return outcome == Outcome::done;
    }

    // `is_packed`: x is packed already. `norm`: of x, comes first. `reader`: the type of the matrix
    // that y is packed for, and the bytes that y has room for. `is_chosen_from`: argmax follows.
    void linear(const std::vector<PyMatrix> &weights, uintptr_t x, bool is_packed,
                const std::optional<PyRowNorm> &norm, uintptr_t scratch,
                const std::vector<uintptr_t> &y, const std::optional<std::string> &gated,
                uintptr_t residual, const std::string &rows,
                const std::optional<std::pair<std::string, size_t>> &reader, bool is_chosen_from) {
        LinearArgs args;
        for (auto &w : weights) args.weights.push_back(matrix_of(w));
        const Linear *screen = nullptr;
        if (is_chosen_from && !precise)
            screen = find_screen(kernels(), args.weights.at(0), interleaving);
        if (!screen)
            for (Matrix &w : args.weights) w = with_copy(std::move(w));
        for (uintptr_t address : y) args.y.push_back(at<float>(address));
        if (gated) args.gated = activation_of(*gated);
        args.residual = at<const float>(residual);
        args.rows = rows_of(rows);
        args.precise = precise;
        args.max_rows = max_rows;
        if (reader) {
            const Packer &packer = packer_for(kernels(), reader->first, precise);
            if (packed_bytes(packer, max_rows, args.weights.at(0).n_rows) > reader->second)
                throw std::invalid_argument("no room for " + reader->first + "'s activations");
            args.output = PackedOutput{&packer, at<uint8_t>(y.at(0))};
        }
        if (is_packed)
            args.packed.push_back(at<const uint8_t>(x));
        else
            pack(args, at<const float>(x), norm, at<uint8_t>(scratch));
        if (screen)
            screening = args.screening = std::make_shared<Screening>(
                kernels(), *screen, args.weights.at(0), args.packed.at(0), args.y.at(0));
        program.add(make_linear(kernels(), std::move(args)));
    }

    // x in the format of each weight's kernel; weights of the same format share it.
    void pack(LinearArgs &args, const float *x, const std::optional<PyRowNorm> &norm,
              uint8_t *scratch) {
        std::vector<Packing> made;
        for (const Matrix &w : args.weights) {
            Packing packing{&packer_for(kernels(), w.type, precise), x, w.n_cols, std::nullopt,
                            scratch};
            if (norm) packing.norm = RowNorm{at<const float>(norm->first), norm->second};
            for (const Packing &known : made)
                if (known.packer == packing.packer) packing.packed = known.packed;
            args.packed.push_back(packing.packed);
            if (packing.packed != scratch) continue;
            scratch += (packed_bytes(*packing.packer, max_rows, w.n_cols) + 63) / 64 * 64;
            program.add(make_pack(kernels(), packing, args.rows));
            made.push_back(packing);
        }
    }
};

// How many experts there are, the first of those held and their number.
using PyExperts = std::tuple<int, int, int>;
// As struct Routing and struct GatedUnit have them.
using PyRouting =
    std::tuple<int, std::string, bool, float, int, int, int, uintptr_t, uintptr_t>;
using PyUnit = std::tuple<std::string, float, float, float>;

GatedUnit unit_of(const PyUnit &unit) {
    auto &[act, limit, up_offset, gate_limit] = unit;
    return {activation_of(act), limit, up_offset, gate_limit};
}

Routing routing_of(const PyRouting &routing) {
    auto &[n_used, gating, normalize, scale, n_groups, n_groups_used, fold, router_b, select_b] =
        routing;
    return {n_used,        gating_of(gating), normalize,
            scale,         n_groups,          n_groups_used,
            fold,          at<const float>(router_b),
            at<const float>(select_b)};
}

// Matrices: router, gate, up, down; flags: merged, weigh_input.
MoeArgs moe_args(const std::vector<PyMatrix> &matrices, const PyExperts &experts,
                 std::pair<bool, bool> flags, const PyRouting &routing, const PyUnit &unit,
                 bool precise, int max_rows) {
    MoeArgs args{};
    args.router = matrix_of(matrices.at(0));
    args.gate = matrix_of(matrices.at(1));
    args.up = matrix_of(matrices.at(2));
    args.down = matrix_of(matrices.at(3));
    std::tie(args.merged, args.weigh_input) = flags;
    std::tie(args.n_experts, args.first_expert, args.n_held) = experts;
    args.routing = routing_of(routing);
    args.unit = unit_of(unit);
    args.precise = precise;
    args.max_rows = max_rows;
    return args;
}

using P = BoundProgram;

nb::class_<P> bind_program(nb::module_ &m) {
    nb::class_<P> program(m, "Program");
    program
        .def(nb::init<const std::string &, int, int, int, bool, bool, const Placement &>(),
             "level"_a, "n_threads"_a, "n_threads_batch"_a, "max_rows"_a, "precise"_a,
             "deterministic"_a, "placement"_a)
        .def("bind_batch", &P::bind_batch)
        .def("run", &P::run)
        .def("cancel", [](P &p) { p.program.cancel(); })
        .def("embed", [](P &p, const PyMatrix &w, uintptr_t ids, const std::string &rows,
                         uintptr_t y) {
            p.program.add(make_embed(p.kernels(), matrix_of(w), at<const int32_t>(ids),
                                     rows_of(rows), at<float>(y)));
        })
        .def("select_rows", [](P &p, uintptr_t x, int n, uintptr_t which, uintptr_t y) {
            p.program.add(
                make_select_rows(at<const float>(x), n, at<const int32_t>(which), at<float>(y)));
        })
        .def("linear", &P::linear, "weights"_a, "x"_a, "is_packed"_a, "norm"_a.none(), "scratch"_a,
             "y"_a, "gated"_a.none(), "residual"_a, "rows"_a, "reader"_a.none(),
             "is_chosen_from"_a)
        .def("argmax", [](P &p, uintptr_t x, int n, uintptr_t y) {
            const bool is_head = p.screening && p.screening->products() == at<float>(x);
            for (auto &op : make_argmax(p.kernels(), at<const float>(x), n,
                                        is_head ? p.screening : nullptr, at<int32_t>(y)))
                p.program.add(std::move(op));
        });
    return program;
}

void bind_rows(nb::class_<P> &program) {
    program
        .def("rms_norm", [](P &p, uintptr_t x, const PyNormWeights &w, uintptr_t y,
                            const std::string &rows, int n, int group, float eps) {
            p.program.add(make_rms_norm(p.kernels(), at<const float>(x), norm_weights_of(w),
                                        at<float>(y), rows_of(rows), n, group, eps));
        })
        .def("layer_norm", [](P &p, uintptr_t x, const PyNormWeights &w, uintptr_t y,
                              const std::string &rows, int n, int group, float eps) {
            p.program.add(make_layer_norm(p.kernels(), at<const float>(x), norm_weights_of(w),
                                          at<float>(y), rows_of(rows), n, group, eps));
        })
        .def("rope_table", [](P &p, std::vector<double> freqs, double magnitude, int back,
                              uintptr_t y) {
            p.program.add(make_rope_table(std::move(freqs), magnitude, back, at<float>(y)));
        })
        .def("rope", [](P &p, uintptr_t x, uintptr_t table, uintptr_t y, int n_heads, int head_dim,
                        int first, int n_rot, bool neox) {
            p.program.add(make_rope(p.kernels(), at<const float>(x), at<const float>(table),
                                    at<float>(y), n_heads, head_dim, first, n_rot, neox));
        })
        .def("position_scale", [](P &p, double scale, int length, int offset, uintptr_t y) {
            p.program.add(make_position_scale(scale, length, offset, at<float>(y)));
        })
        .def("add", [](P &p, uintptr_t a, uintptr_t b, bool same_b, uintptr_t y,
                       const std::string &rows, int n) {
            p.program.add(make_add(p.kernels(), at<const float>(a), at<const float>(b), same_b,
                                   at<float>(y), rows_of(rows), n));
        })
        .def("scale", [](P &p, uintptr_t x, float s, uintptr_t w, int w_size, bool divide,
                         uintptr_t y, const std::string &rows, int n) {
            p.program.add(make_scale(at<const float>(x), s, {at<const float>(w), w_size, divide},
                                     at<float>(y), rows_of(rows), n));
        })
        .def("clamp", [](P &p, uintptr_t x, float limit, uintptr_t y, const std::string &rows,
                         int n) {
            p.program.add(make_clamp(at<const float>(x), limit, at<float>(y), rows_of(rows), n));
        })
        .def("softcap", [](P &p, uintptr_t x, float cap, uintptr_t y, const std::string &rows,
                           int n) {
            p.program.add(make_softcap(p.kernels(), at<const float>(x), cap, at<float>(y),
                                       rows_of(rows), n));
        })
        .def("columns", [](P &p, uintptr_t x, int group, int first, int count, uintptr_t y,
                           const std::string &rows, int n) {
            p.program.add(make_columns(at<const float>(x), group, first, count, at<float>(y),
                                       rows_of(rows), n));
        })
        .def("activation", [](P &p, uintptr_t x, const std::string &act, uintptr_t y,
                              const std::string &rows, int n) {
            p.program.add(make_activation(p.kernels(), at<const float>(x), activation_of(act),
                                          at<float>(y), rows_of(rows), n));
        })
        .def("glu", [](P &p, uintptr_t gate, int n_gates, uintptr_t up, const PyUnit &unit,
                       uintptr_t y, const std::string &rows, int n) {
            p.program.add(make_glu(p.kernels(), at<const float>(gate), n_gates, at<const float>(up),
                                   unit_of(unit), at<float>(y), rows_of(rows), n));
        });
}

void bind_wide_operations(nb::class_<P> &program) {
    program
        .def("concat", [](P &p, const std::vector<std::tuple<uintptr_t, int, bool>> &parts,
                          int n_heads, uintptr_t y, const std::string &rows) {
            std::vector<HeadPart> sources;
            for (auto [x, n, shared] : parts) sources.push_back({at<const float>(x), n, shared});
            p.program.add(make_concat(std::move(sources), n_heads, at<float>(y), rows_of(rows)));
        })
        .def("kv_write", [](P &p, const PyKV &kv, uintptr_t key, uintptr_t value) {
            p.program.add(make_kv_write(p.kernels(), kv_of(kv), at<const float>(key),
                                        at<const float>(value)));
        })
        .def("attention", [](P &p, const PyKV &kv, uintptr_t q, uintptr_t y, int n_heads,
                             const PyVisibility &visibility, float scale, float softcap,
                             std::vector<float> slopes, uintptr_t sinks) {
            AttentionOptions options{n_heads, visibility_of(visibility), scale, softcap,
                                     std::move(slopes), at<const float>(sinks)};
            for (auto &op : make_attention(p.kernels(), kv_of(kv), at<const float>(q),
                                           at<float>(y), std::move(options), p.attention_cut))
                p.program.add(std::move(op));
        })
        .def("head_linear", [](P &p, const PyMatrix &w, int n_heads, int width, uintptr_t x,
                               uintptr_t y, const std::string &rows, uintptr_t scratch) {
            Matrix all = p.with_copy(matrix_of(w), std::get<2>(w) / n_heads);
            HeadLinearArgs args{all, n_heads, width, at<const float>(x), at<float>(y),
                                rows_of(rows), p.precise, p.max_rows, at<uint8_t>(scratch)};
            for (auto &op : make_head_linear(p.kernels(), args)) p.program.add(std::move(op));
        })
        .def("moe", [](P &p, const std::vector<PyMatrix> &matrices, const PyExperts &experts,
                       std::pair<bool, bool> flags, const PyRouting &routing, const PyUnit &unit,
                       uintptr_t down_scale, uintptr_t x, uintptr_t seen, uintptr_t given,
                       uintptr_t y, const std::string &rows, uintptr_t scratch) {
            auto args = moe_args(matrices, experts, flags, routing, unit, p.precise, p.max_rows);
            const int n_ff = args.down.n_cols, n = args.up.n_cols;
            args.gate = p.with_copy(std::move(args.gate), n_ff);
            args.up = p.with_copy(std::move(args.up), n_ff);
            args.down = p.with_copy(std::move(args.down), n);
            args.down_scale = at<const float>(down_scale);
            args.x = at<const float>(x);
            args.seen = at<const float>(seen);
            args.given = at<const float>(given);
            args.y = at<float>(y);
            args.rows = rows_of(rows);
            args.scratch = at<uint8_t>(scratch);
            for (auto &op : make_moe(p.kernels(), args)) p.program.add(std::move(op));
        });
}

// Address and floats of a slot.
using PySlots = std::pair<uintptr_t, size_t>;

Slots slots_of(const PySlots &slots) { return {at<float>(slots.first), slots.second}; }

void bind_rearranging(nb::class_<P> &program) {
    program
        .def("head_sum", [](P &p, uintptr_t x, uintptr_t y, const std::string &rows, int n_cols,
                            int head_dim) {
            p.program.add(make_head_sum(at<const float>(x), at<float>(y), rows_of(rows), n_cols,
                                        head_dim));
        })
        .def("l2_norm", [](P &p, uintptr_t x, uintptr_t y, const std::string &rows, int n,
                           int group, float eps) {
            p.program.add(make_l2_norm(p.kernels(), at<const float>(x), at<float>(y), rows_of(rows),
                                       n, group, eps));
        })
        .def("token_shift", [](P &p, const PySlots &slots, uintptr_t x, uintptr_t y) {
            p.program.add(make_token_shift(slots_of(slots), at<const float>(x), at<float>(y)));
        });
}

void bind_streams(nb::class_<P> &program) {
    program
        .def("hyper_weights", [](P &p, uintptr_t x, uintptr_t scale, uintptr_t base,
                                  uintptr_t into, uintptr_t spread, const std::string &rows,
                                  const std::tuple<int, int, bool, double, double, double> &o) {
            auto [n_streams, n_rounds, mixes, eps, magnitude, out_eps] = o;
            p.program.add(make_hyper_weights(
                at<const float>(x), at<const float>(scale), at<const float>(base), at<float>(into),
                at<float>(spread), rows_of(rows),
                {n_streams, n_rounds, mixes, eps, magnitude, out_eps}));
        })
        .def("hyper_mix", [](P &p, const std::vector<std::pair<uintptr_t, int>> &xs, uintptr_t w,
                               uintptr_t y, const std::string &rows, int width, int n_out) {
            std::vector<std::pair<const float *, int>> sources;
            for (auto [x, n] : xs) sources.emplace_back(at<const float>(x), n);
            p.program.add(make_hyper_mix(p.kernels(), std::move(sources), at<const float>(w),
                                           at<float>(y), rows_of(rows), width, n_out));
        })
        .def("pool_tokens", [](P &p, const PySlots &slots, uintptr_t x, uintptr_t scores,
                               uintptr_t place, uintptr_t y, int ratio, int n_groups, int width) {
            p.program.add(make_pool_tokens(
                p.kernels(), slots_of(slots),
                {at<const float>(x), at<const float>(scores), at<const float>(place), at<float>(y),
                 ratio, n_groups, width}));
        })
        .def("pooled_attention", [](P &p, const PyKV &kv, uintptr_t q, uintptr_t y, int n_heads,
                                    int window, int ratio, float scale, uintptr_t sinks) {
            p.program.add(make_pooled_attention(
                p.kernels(), kv_of(kv), at<const float>(q), at<float>(y),
                {n_heads, window, ratio, scale, at<const float>(sinks)}));
        });
}

void bind_recurrent(nb::class_<P> &program) {
    program
        .def("conv1d", [](P &p, const PySlots &slots, uintptr_t x, uintptr_t w, uintptr_t b,
                          uintptr_t y, int n_channels, int n_taps, const std::string &act) {
            p.program.add(make_conv1d(
                p.kernels(), slots_of(slots),
                {at<const float>(x), at<float>(y), at<const float>(w), at<const float>(b), nullptr,
                 nullptr, 0, n_channels, n_taps, 0, 0, activation_of(act)}));
        })
        .def("ssm_scan", [](P &p, const PySlots &slots, uintptr_t x, uintptr_t dt, uintptr_t b,
                            uintptr_t c, uintptr_t a, uintptr_t d, uintptr_t y, int n_heads,
                            int n_channels, int n_state, int n_groups, int n_decays) {
            p.program.add(make_ssm_scan(
                p.kernels(), slots_of(slots),
                {at<const float>(x), at<const float>(dt), at<const float>(b), at<const float>(c),
                 at<float>(y), at<const float>(a), at<const float>(d), nullptr, 0, n_heads,
                 n_channels, n_state, n_groups, n_decays, 0, 0}));
        })
        .def("linear_attention", [](P &p, const PySlots &slots, uintptr_t q, uintptr_t k,
                                    uintptr_t v, uintptr_t g, uintptr_t beta, uintptr_t first,
                                    uintptr_t y, const std::tuple<int, int, int, int> &sizes,
                                    bool g_per_row, std::vector<float> decay, bool tiled,
                                    float scale) {
            auto [n_heads, n_k_heads, k_dim, v_dim] = sizes;
            p.program.add(make_linear_attention(
                p.kernels(), slots_of(slots),
                {at<const float>(q), at<const float>(k), at<const float>(v), at<const float>(g),
                 at<const float>(beta), at<const float>(first), at<float>(y), nullptr, 0, n_heads,
                 n_k_heads, k_dim, v_dim, 0, 0, g_per_row, 0.0f, scale},
                std::move(decay), tiled));
        })
        .def("rwkv_mix", [](P &p, const PySlots &slots, const std::vector<uintptr_t> &x,
                            uintptr_t y, int n_heads, int dim) {
            p.program.add(make_rwkv_mix(
                p.kernels(), slots_of(slots),
                {at<const float>(x.at(0)), at<const float>(x.at(1)), at<const float>(x.at(2)),
                 at<const float>(x.at(3)), at<const float>(x.at(4)), at<const float>(x.at(5)),
                 at<float>(y), nullptr, 0, n_heads, dim, 0}));
        });
}

}  // namespace
}  // namespace cpu

void bind_cpu(nb::module_ &m) {
    cpu::bind_kernels(m);
    cpu::bind_quantize(m);
    cpu::bind_moving(m);
    cpu::bind_packing(m);
    cpu::bind_pool(m);
    auto program = cpu::bind_program(m);
    program.def_ro("interleaving", &cpu::BoundProgram::interleaving);
    cpu::bind_rows(program);
    cpu::bind_wide_operations(program);
    cpu::bind_rearranging(program);
    cpu::bind_streams(program);
    cpu::bind_recurrent(program);
    m.def("has_kernel", [](const std::string &level, const std::string &type) {
        return cpu::kernels_for(level)->linear(type.c_str(), false) != nullptr;
    });
    m.attr("MAX_CONV_TAPS") = cpu::max_conv_taps;
    m.attr("MAX_STREAMS") = cpu::max_streams;
    m.attr("MOST_SCREENED") = cpu::Screening::most_rows;
    m.def("moe_scratch_bytes", [](const std::string &level,
                                  const std::vector<cpu::PyMatrix> &matrices,
                                  const cpu::PyExperts &experts, const cpu::PyRouting &routing,
                                  int max_rows, bool precise) {
        auto args = cpu::moe_args(matrices, experts, {}, routing, {"silu", 0.0f, 0.0f, 0.0f},
                                  precise, max_rows);
        return cpu::moe_scratch_bytes(*cpu::kernels_for(level), args);
    });
}

}  // namespace unladen
