// unladen._native.cpu: programs over addresses. The Python backend keeps their memory alive.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <tuple>
#include <utility>

#include "backends/cpu/csrc/cpu.h"
#include "backends/cpu/csrc/ops/operations.h"
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

// The fields of struct Value: address, type, rows and columns; and the fields of struct Tensor.
using PyValue = std::tuple<uintptr_t, std::string, std::string, int>;
using PyTensor = std::tuple<uintptr_t, std::string, std::vector<int64_t>>;

std::vector<Value> values_of(const std::vector<PyValue> &given) {
    std::vector<Value> all;
    for (const auto &[address, type, rows, n_cols] : given)
        all.push_back({address, type, rows, n_cols});
    return all;
}

void make_node(Node *place, std::string op, std::string name, const std::vector<PyValue> &inputs,
               const std::vector<PyValue> &outputs, const std::map<std::string, PyTensor> &weights,
               std::map<std::string, Attribute> attrs,
               const std::optional<std::pair<uintptr_t, size_t>> &slots,
               const std::optional<KVView> &kv, uintptr_t scratch,
               const std::optional<Joined> &joined, int first_column) {
    auto *node = new (place) Node{};
    node->op = std::move(op);
    node->name = std::move(name);
    node->inputs = values_of(inputs);
    node->outputs = values_of(outputs);
    for (const auto &[role, weight] : weights) {
        const auto &[address, type, shape] = weight;
        node->weights[role] = {address, type, shape};
    }
    node->attributes = std::move(attrs);
    if (slots) node->slots = Slots{at<float>(slots->first), slots->second};
    node->kv = kv;
    node->first_column = first_column;
    node->scratch = scratch;
    if (joined) node->joined = *joined;
}

void make_kv(KVView *place, uintptr_t k, uintptr_t v, const std::string &k_type,
             const std::string &v_type, int n_heads, int k_dim, int v_dim, int block_tokens) {
    new (place) KVView{at<uint8_t>(k), at<uint8_t>(v), named<KVType>(k_type),
                       named<KVType>(v_type), n_heads, k_dim, v_dim, block_tokens};
}

void make_joined(Joined *place, bool is_packed,
                 const std::optional<std::pair<uintptr_t, float>> &norm,
                 const std::optional<std::pair<std::string, size_t>> &reader,
                 bool is_chosen_from) {
    auto *joined = new (place) Joined{};
    joined->is_packed = is_packed;
    if (norm) joined->norm = Joined::Norm{norm->first, norm->second};
    if (reader) joined->reader = Joined::Reader{reader->first, reader->second};
    joined->is_chosen_from = is_chosen_from;
}

// A program and the step that it runs. The arrays of the batch stay at the same addresses.
struct BoundProgram {
    BoundProgram(const std::string &level, int n_threads, int n_threads_batch, int max_rows,
                 bool precise, bool deterministic, const Placement &placement)
        : program(kernels_for(level), n_threads, n_threads_batch,
                  placement.empty() ? nullptr : std::make_shared<Placement>(placement)),
          builder(program, {program.kernels(), max_rows, precise}) {
        step.one_order = deterministic;
    }

    Program program;
    Builder builder;
    Step step;

    void add(const Node &node) {
        const std::string why = refusal(node);
        if (!why.empty()) throw std::invalid_argument(why);
        operation_kind(node.op).add(node, builder);
    }

    void bind_batch(uintptr_t index, uintptr_t sees_to, uintptr_t seq_of, uintptr_t q_start,
                    uintptr_t kv_len, uintptr_t block_table, int table_stride, uintptr_t state_in,
                    uintptr_t state_out, uintptr_t adapter_of) {
        step.index = at<const int32_t>(index);
        step.sees_to = at<const int32_t>(sees_to);
        step.adapter_of = at<const int32_t>(adapter_of);
        step.seq_of = at<const int32_t>(seq_of);
        step.q_start = at<const int32_t>(q_start);
        step.kv_len = at<const int32_t>(kv_len);
        step.block_table = at<const int32_t>(block_table);
        step.table_stride = table_stride;
        step.state_in = at<const int32_t>(state_in);
        step.state_out = at<const int32_t>(state_out);
    }

    // Returns false if it was cancelled. Passes on the exception of a signal handler.
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
            // The end of this scope takes the GIL back. A Python error that was set stays set.
        }
        if (outcome == Outcome::interrupted) throw nb::python_error();
        return outcome == Outcome::done;
    }
};

using P = BoundProgram;

void bind_node(nb::module_ &m) {
    nb::class_<KVView>(m, "KV").def("__init__", &make_kv, nb::kw_only(), "k"_a, "v"_a, "k_type"_a,
                                    "v_type"_a, "n_heads"_a, "k_dim"_a, "v_dim"_a,
                                    "block_tokens"_a);
    nb::class_<Joined>(m, "Joined")
        .def("__init__", &make_joined, nb::kw_only(), "is_packed"_a, "norm"_a.none(),
             "reader"_a.none(), "is_chosen_from"_a);
    nb::class_<Node>(m, "Node").def("__init__", &make_node, nb::kw_only(), "op"_a, "name"_a,
                                    "inputs"_a, "outputs"_a, "weights"_a, "attrs"_a,
                                    "slots"_a.none() = nb::none(), "kv"_a.none() = nb::none(),
                                    "scratch"_a = 0, "joined"_a.none() = nb::none(),
                                    "first_column"_a = 0);
}

void bind_program(nb::module_ &m) {
    nb::class_<P>(m, "Program")
        .def(nb::init<const std::string &, int, int, int, bool, bool, const Placement &>(),
             "level"_a, "n_threads"_a, "n_threads_batch"_a, "max_rows"_a, "precise"_a,
             "deterministic"_a, "placement"_a)
        .def("bind_batch", &P::bind_batch, nb::kw_only(), "index"_a, "sees_to"_a, "seq_of"_a,
             "q_start"_a, "kv_len"_a, "block_table"_a, "table_stride"_a, "state_in"_a,
             "state_out"_a, "adapter_of"_a)
        .def("add", &P::add)
        .def("run", &P::run)
        .def("cancel", [](P &p) { p.program.cancel(); })
        .def_prop_ro("interleaving",
                     [](P &p) -> Interleaving & { return p.builder.interleaving(); });
}

// The ops that have a kernel, each with the nodes that it takes, in words ("" for all), and whether
// it needs working memory.
std::map<std::string, std::pair<std::string, bool>> operations() {
    std::map<std::string, std::pair<std::string, bool>> ops;
    for (const auto &[op, kind] : operation_kinds())
        ops[op] = {kind.limit ? kind.limit() : "", kind.scratch_bytes != nullptr};
    return ops;
}

size_t scratch_bytes(const Node &node, const std::string &level, int max_rows, bool precise) {
    const OperationKind &kind = operation_kind(node.op);
    const Sizing sizing{*kernels_for(level), max_rows, precise};
    return kind.scratch_bytes ? kind.scratch_bytes(node, sizing) : 0;
}

}  // namespace
}  // namespace cpu

void bind_cpu(nb::module_ &m) {
    cpu::bind_kernels(m);
    cpu::bind_quantize(m);
    cpu::bind_moving(m);
    cpu::bind_packing(m);
    cpu::bind_pool(m);
    cpu::bind_node(m);
    cpu::bind_program(m);
    m.def("operations", &cpu::operations);
    m.def("refusal", &cpu::refusal);
    m.def("scratch_bytes", &cpu::scratch_bytes, "node"_a, "level"_a, "max_rows"_a, "precise"_a);
    m.def("has_kernel", [](const std::string &level, const std::string &type) {
        return cpu::kernels_for(level)->linear(type.c_str(), false) != nullptr;
    });
}

}  // namespace unladen
