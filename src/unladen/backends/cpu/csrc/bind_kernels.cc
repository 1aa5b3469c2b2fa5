// The kernels one by one, as tests see them: arrays in, a new array out, sizes checked.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/csrc/cpu.h"
#include "backends/cpu/csrc/names.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace unladen::cpu {
namespace {

template <typename T, size_t n_dims>
using In = nb::ndarray<const T, nb::ndim<n_dims>, nb::c_contig, nb::device::cpu>;
using Row = In<float, 1>;
using Bytes = In<uint8_t, 1>;
using Range = std::pair<int, int>;

void require(bool condition, const char *what) {
    if (!condition) throw std::invalid_argument(what);
}

// A size as the kernels take it.
int size_of(size_t n) {
    require(n <= size_t(std::numeric_limits<int>::max()), "an array is too long");
    return int(n);
}

template <typename T>
nb::object to_numpy(std::vector<T> values, std::vector<size_t> shape) {
    auto *data = new std::vector<T>(std::move(values));
    nb::capsule owner(data, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(data->data(), shape.size(), shape.data(), owner));
}

size_t kv_row_bytes(KVType type, size_t dim) {
    switch (type) {
    case KVType::f32: return 4 * dim;
    case KVType::f16: return 2 * dim;
    case KVType::q8_0: break;
    }
    return (dim + 31) / 32 * 34;
}

const float *weights_for(const std::optional<Row> &w, size_t n) {
    require(!w || w->size() == n, "weights need the length of x");
    return w ? w->data() : nullptr;
}

nb::object rms_norm(Row x, std::optional<Row> w, float eps, const std::string &level) {
    std::vector<float> y(x.size());
    kernels_for(level)->rms_norm(y.data(), x.data(), weights_for(w, x.size()), size_of(x.size()),
                                 eps);
    return to_numpy(std::move(y), {x.size()});
}

nb::object layer_norm(Row x, std::optional<Row> w, std::optional<Row> b, float eps,
                      const std::string &level) {
    std::vector<float> y(x.size());
    kernels_for(level)->layer_norm(y.data(), x.data(), weights_for(w, x.size()),
                                   weights_for(b, x.size()), size_of(x.size()), eps);
    return to_numpy(std::move(y), {x.size()});
}

nb::object rope(In<float, 2> x, In<float, 2> cs, bool neox, const std::string &level) {
    require(cs.shape(1) == 2, "cs holds pairs (cos, sin)");
    require(2 * cs.shape(0) <= x.shape(1), "a head has fewer dimensions than cs turns");
    std::vector<float> y(x.size());
    kernels_for(level)->rope(y.data(), x.data(), cs.data(), size_of(x.shape(0)),
                             size_of(x.shape(1)), 2 * size_of(cs.shape(0)), neox);
    return to_numpy(std::move(y), {x.shape(0), x.shape(1)});
}

nb::object activate(Row x, const std::string &act, const std::string &level) {
    std::vector<float> y(x.size());
    kernels_for(level)->activate(y.data(), x.data(), size_of(x.size()), activation_of(act));
    return to_numpy(std::move(y), {x.size()});
}

nb::object glu(Row gate, Row up, const std::string &act, const std::string &level) {
    require(gate.size() == up.size(), "gate and up differ in length");
    std::vector<float> y(up.size());
    kernels_for(level)->glu(y.data(), gate.data(), up.data(), size_of(up.size()),
                            activation_of(act));
    return to_numpy(std::move(y), {up.size()});
}

nb::object add(Row a, Row b, const std::string &level) {
    require(a.size() == b.size(), "a and b differ in length");
    std::vector<float> y(a.size());
    kernels_for(level)->add(y.data(), a.data(), b.data(), size_of(a.size()));
    return to_numpy(std::move(y), {a.size()});
}

nb::object scale_add(Row y, Row x, float s, const std::string &level) {
    require(y.size() == x.size(), "y and x differ in length");
    std::vector<float> sum(y.data(), y.data() + y.size());
    kernels_for(level)->scale_add(sum.data(), x.data(), size_of(x.size()), s);
    return to_numpy(std::move(sum), {y.size()});
}

// A cache of n_blocks blocks and the memory that it lies in.
struct Cache {
    std::vector<uint8_t> k, v;
    KVView view;

    Cache(const std::string &k_type, const std::string &v_type, size_t n_blocks,
          size_t n_kv_heads, size_t k_dim, size_t v_dim, int block_tokens)
        : view{nullptr,        nullptr,        kv_type_of(k_type), kv_type_of(v_type),
               int(n_kv_heads), int(k_dim),    int(v_dim),            block_tokens} {
        const size_t rows = n_blocks * n_kv_heads * size_t(block_tokens);
        k.resize(rows * kv_row_bytes(view.k_type, k_dim));
        v.resize(rows * kv_row_bytes(view.v_type, v_dim));
        view.k = k.data();
        view.v = v.data();
    }
};

nb::object kv_store(In<float, 2> k, In<float, 2> v, const std::string &k_type,
                    const std::string &v_type, const std::string &level) {
    const size_t heads = k.shape(0);
    require(v.shape(0) == heads, "k and v differ in heads");
    Cache cache(k_type, v_type, 1, heads, k.shape(1), v.shape(1), 1);
    kernels_for(level)->kv_store(cache.view, 0, 0, k.data(), v.data());
    const size_t k_bytes = cache.k.size(), v_bytes = cache.v.size();
    return nb::make_tuple(to_numpy(std::move(cache.k), {k_bytes}),
                          to_numpy(std::move(cache.v), {v_bytes}));
}

// `seen` [n_tasks, 3]: a task's position and the keys [first, last) that it sees.
nb::object attention(In<float, 3> q, In<float, 3> k, In<float, 3> v, int block_tokens,
                     In<int32_t, 1> block_table, In<int32_t, 2> seen, const std::string &k_type,
                     const std::string &v_type, float scale, float softcap,
                     std::optional<Row> slopes, std::optional<Row> sinks,
                     const std::string &level) {
    const Kernels &kernels = *kernels_for(level);
    const size_t n_tasks = q.shape(0), n_heads = q.shape(1), k_dim = q.shape(2);
    const size_t n_keys = k.shape(0), n_kv_heads = k.shape(1), v_dim = v.shape(2);
    require(k.shape(2) == k_dim && v.shape(0) == n_keys && v.shape(1) == n_kv_heads,
            "q [n_tasks, n_heads, k_dim], k [n_keys, n_kv_heads, k_dim] and v [n_keys, n_kv_heads, "
            "v_dim] don't agree");
    require(n_kv_heads > 0 && n_heads > 0 && n_heads % n_kv_heads == 0 && n_tasks > 0 &&
            k_dim > 0 && v_dim > 0, "nothing to attend with");
    require(seen.shape(0) == n_tasks && seen.shape(1) == 3, "seen is [n_tasks, 3]");
    for (size_t i = 0; i < n_tasks; i++) {
        require(seen(i, 1) >= 0 && seen(i, 1) < seen(i, 2) && size_t(seen(i, 2)) <= n_keys,
                "a task sees keys that don't exist, or none");
    }
    require((!slopes || slopes->size() == n_heads) && (!sinks || sinks->size() == n_heads),
            "one slope and one sink per head");
    require(block_tokens >= 1 && block_table.size() * size_t(block_tokens) >= n_keys,
            "the block table is too short");
    size_of(q.size()), size_of(k.size()), size_of(v.size());
    int32_t n_blocks = 0;
    for (size_t i = 0; i < block_table.size(); i++) {
        require(block_table(i) >= 0 && size_t(block_table(i)) < 4 * block_table.size() + 4,
                "a block's number is out of bounds");
        n_blocks = std::max(n_blocks, block_table(i) + 1);
    }
    Cache cache(k_type, v_type, n_blocks, n_kv_heads, k_dim, v_dim, block_tokens);
    for (size_t i = 0; i < n_keys; i++) {
        kernels.kv_store(cache.view, block_table(i / block_tokens), int(i % block_tokens),
                         &k(i, 0, 0), &v(i, 0, 0));
    }
    std::vector<float> y(n_tasks * n_heads * v_dim);
    std::vector<AttentionTask> tasks(n_tasks);
    for (size_t i = 0; i < n_tasks; i++) {
        tasks[i] = {&q(i, 0, 0), &y[i * n_heads * v_dim], block_table.data(),
                    seen(i, 0), seen(i, 1), seen(i, 2), nullptr};
    }
    const int group = int(n_heads / n_kv_heads);
    const Scoring scoring{scale, softcap, slopes ? slopes->data() : nullptr,
                          sinks ? sinks->data() : nullptr};
    std::vector<float> scratch(kernels.attention_scratch_floats(
        group, int(n_tasks), int(k_dim), int(v_dim), block_tokens));
    for (int head = 0; head < int(n_kv_heads); head++) {
        kernels.attention({cache.view, int(n_heads), scoring, tasks.data(), int(n_tasks), head,
                           scratch.data()});
    }
    return to_numpy(std::move(y), {n_tasks, n_heads, v_dim});
}

const Linear &linear_named(const Kernels &kernels, const std::string &type, bool precise) {
    const Linear *linear = kernels.linear(type.c_str(), precise);
    if (!linear) throw std::invalid_argument("no kernel multiplies by " + type);
    return *linear;
}

void require_blocks(const Linear &linear, const Bytes &raw, int n_rows, int n) {
    require(n >= 0 && n_rows >= 0 && n % linear.block_size == 0,
            "a row holds a whole number of blocks");
    require(raw.size() == size_t(n_rows) * size_t(n / linear.block_size) * linear.block_bytes,
            "the raw bytes don't fit the number of weights");
}

nb::object dequantize(const std::string &type, Bytes raw, int n, const std::string &level) {
    const Kernels &kernels = *kernels_for(level);
    require_blocks(linear_named(kernels, type, true), raw, 1, n);
    Kernels::Dequantize run = kernels.dequantize(type.c_str());
    if (!run) throw std::invalid_argument("no kernel reads " + type);
    std::vector<float> y(n);
    run(y.data(), raw.data(), n);
    return to_numpy(std::move(y), {y.size()});
}

void require_range(Range range, int n, int granule) {
    require(range.first >= 0 && range.first <= range.second && range.second <= n,
            "a range is out of bounds");
    require(range.first % granule == 0, "a range begins inside a granule");
}

nb::object matmul(const std::string &type, Bytes w, int n_rows_w, int n_cols, In<float, 2> x,
                  const std::string &level, bool precise, Range n_range, Range t_range) {
    const Kernels &kernels = *kernels_for(level);
    const Linear &linear = linear_named(kernels, type, precise);
    require_blocks(linear, w, n_rows_w, n_cols);
    require(x.shape(1) == size_t(n_cols), "x has another number of columns");
    const Packer &packer = *kernels.packer(linear.act);
    const int n_rows = size_of(x.shape(0));
    require_range(n_range, n_rows_w, linear.row_granule);
    require_range(t_range, n_rows, packer.granule);
    // The caches that real programs pack into begin at a cache line.
    std::vector<uint8_t> memory(packer.bytes(n_rows, n_cols) + 64);
    void *act = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    packer.pack(act, x.data(), size_t(n_cols), nullptr, n_rows, n_cols, 0, n_rows);
    std::vector<float> y(size_t(n_rows) * n_rows_w, std::nanf(""));
    linear.run(y.data(), size_t(n_rows_w), w.data(), n_range.first, n_range.second, n_cols, act,
               n_rows, t_range.first, t_range.second);
    return to_numpy(std::move(y), {size_t(n_rows), size_t(n_rows_w)});
}

}  // namespace

void bind_kernels(nb::module_ &m) {
    m.def("levels", &levels);
    m.def("rms_norm", &rms_norm, "x"_a, "w"_a.none(), "eps"_a, "level"_a);
    m.def("layer_norm", &layer_norm, "x"_a, "w"_a.none(), "b"_a.none(), "eps"_a, "level"_a);
    m.def("rope", &rope, "x"_a, "cs"_a, "neox"_a, "level"_a);
    m.def("activate", &activate, "x"_a, "act"_a, "level"_a);
    m.def("glu", &glu, "gate"_a, "up"_a, "act"_a, "level"_a);
    m.def("add", &add, "a"_a, "b"_a, "level"_a);
    m.def("scale_add", &scale_add, "y"_a, "x"_a, "s"_a, "level"_a);
    m.def("kv_store", &kv_store, "k"_a, "v"_a, "k_type"_a, "v_type"_a, "level"_a);
    m.def("attention", &attention, "q"_a, "k"_a, "v"_a, "block_tokens"_a, "block_table"_a,
          "seen"_a, "k_type"_a, "v_type"_a, "scale"_a, "softcap"_a, "slopes"_a.none(),
          "sinks"_a.none(), "level"_a);
    m.def("dequantize", &dequantize, "type"_a, "raw"_a, "n"_a, "level"_a);
    m.def("matmul", &matmul, "type"_a, "w"_a, "n_rows_w"_a, "n_cols"_a, "x"_a, "level"_a,
          "precise"_a, "n_range"_a, "t_range"_a);
}

}  // namespace unladen::cpu
