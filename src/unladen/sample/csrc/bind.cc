#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "csrc/gil.h"
#include "sample/csrc/chain.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace unladen {
namespace {

using sample::Candidates;
using sample::Chain;
using sample::State;
using Row = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Masks = std::optional<std::vector<Words>>;
using Ids = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
nb::object array(std::unique_ptr<T[]> data, size_t n) {
    nb::capsule owner(data.get(), [](void *p) noexcept { delete[] static_cast<T *>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(data.release(), {n}, owner));
}

// Sets the masks of a state while this object lives. The caller holds the state's mutex.
struct Lent {
    Lent(State &state, const Masks &masks) : state(state) {
        if (masks)
            for (const Words &each : *masks) state.masks.push_back({each.data(), each.shape(0)});
    }
    ~Lent() { state.masks.clear(); }
    Lent(const Lent &) = delete;
    State &state;
};

int32_t pick(const Chain &chain, Row logits, State &state, bool accept, const Masks &masks) {
    const Unlocked unlocked;
    std::lock_guard lock(state.mutex);
    const Lent lent(state, masks);
    int32_t token = chain.pick(logits.data(), logits.shape(0), state);
    if (accept) state.accept(token);
    return token;
}

// Runs consecutive native steps of a chain that also has steps in Python. Returns (chosen token or
// -1, ids, logits).
nb::tuple run(const Chain &chain, Row logits, std::optional<Ids> ids, State &state,
              const Masks &masks) {
    if (ids && ids->shape(0) != logits.shape(0)) throw nb::value_error("one id for each logit");
    std::unique_ptr<int32_t[]> out_ids;
    std::unique_ptr<float[]> out_logits;
    size_t n = 0;
    int32_t chosen;
    {
        const Unlocked unlocked;
        std::lock_guard lock(state.mutex);
        const Lent lent(state, masks);
        Candidates c(logits.data(), ids ? ids->data() : nullptr, logits.shape(0));
        chain.run(c, state);
        out_ids.reset(new int32_t[c.size()]);
        out_logits.reset(new float[c.size()]);
        for (size_t i = 0; i < c.size(); ++i) {
            if (std::isinf(c.logits()[i]) && c.logits()[i] < 0) continue;
            out_ids[n] = c.id(i);
            out_logits[n++] = c.logits()[i];
        }
        chosen = c.chosen;
    }
    return nb::make_tuple(chosen, array(std::move(out_ids), n), array(std::move(out_logits), n));
}

// Picks and accepts a token for every row. Returns the tokens, with -1 for rows with bad logits,
// and what is wrong with the first such row.
std::pair<std::vector<int32_t>, std::string> sample_rows(Rows logits,
                                                         const std::vector<Chain *> &chains,
                                                         const std::vector<State *> &states) {
    if (chains.size() != logits.shape(0) || states.size() != logits.shape(0))
        throw nb::value_error("one chain and one state for each row");
    const Unlocked unlocked;
    std::vector<int32_t> tokens;
    std::string reason;
    for (size_t row = 0; row < chains.size(); ++row) {
        std::lock_guard lock(states[row]->mutex);
        int32_t token = -1;
        try {
            token = chains[row]->pick(logits.data() + row * logits.shape(1), logits.shape(1),
                                      *states[row]);
            states[row]->accept(token);
        } catch (const sample::BadLogits &e) {
            if (reason.empty()) reason = e.what();
        }
        tokens.push_back(token);
    }
    return {std::move(tokens), std::move(reason)};
}

std::pair<double, std::vector<std::pair<int32_t, double>>> logprobs(Row logits, size_t token,
                                                                    size_t n_top) {
    if (token >= logits.shape(0)) throw nb::index_error("the token is not in the vocabulary");
    const Unlocked unlocked;
    sample::Logprobs result = sample::logprobs(logits.data(), logits.shape(0), token, n_top);
    return {result.logprob, std::move(result.top)};
}

nb::object recent(State &state, int64_t n) {
    std::lock_guard lock(state.mutex);
    size_t all = state.history().size();
    size_t count = n < 0 ? all : std::min(size_t(n), all);
    std::unique_ptr<int32_t[]> out(new int32_t[count]);
    std::copy(state.history().end() - std::ptrdiff_t(count), state.history().end(), out.get());
    return array(std::move(out), count);
}

void accept_all(State &state, Ids tokens) {
    const Unlocked unlocked;
    std::lock_guard lock(state.mutex);
    for (size_t i = 0; i < tokens.shape(0); ++i) state.accept(tokens.data()[i]);
}

void raise_bad_logits(const std::exception_ptr &p, void *) {
    try {
        std::rethrow_exception(p);
    } catch (const sample::BadLogits &e) {
        nb::object type = nb::module_::import_("unladen.sample.base").attr("BadLogits");
        PyErr_SetString(type.ptr(), e.what());
    }
}

}  // namespace

void bind_sample(nb::module_ &m) {
    nb::register_exception_translator(raise_bad_logits);
    nb::class_<State>(m, "State", nb::dynamic_attr())
        .def(nb::init<uint64_t>(), "seed"_a)
        .def("accept", [](State &s, int32_t token) {
            std::lock_guard lock(s.mutex);
            s.accept(token);
        }, "token"_a)
        .def("accept_all", accept_all, "tokens"_a)
        .def("recent", recent, "n"_a)
        .def("random", [](State &s) {
            std::lock_guard lock(s.mutex);
            return s.random();
        });
    using Steps = std::vector<std::pair<std::string, sample::Parameters>>;
    nb::class_<Chain>(m, "Chain")
        .def(nb::init<const Steps &>(), "steps"_a)
        .def("pick", pick, nb::arg("logits").noconvert(), "state"_a, "accept"_a,
             "masks"_a = nb::none())
        .def("run", run, nb::arg("logits").noconvert(), nb::arg("ids").noconvert().none(),
             "state"_a, "masks"_a = nb::none());
    m.def("sample_rows", sample_rows, nb::arg("logits").noconvert(), "chains"_a, "states"_a);
    m.def("logprobs", logprobs, nb::arg("logits").noconvert(), "token"_a, "n_top"_a);
    m.def("opcodes", [] {
        std::vector<std::string> names;
        for (const auto &[name, factory] : sample::factories()) names.push_back(name);
        return names;
    });
}

}  // namespace unladen
