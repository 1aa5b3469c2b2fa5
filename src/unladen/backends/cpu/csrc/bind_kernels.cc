// Each kernel as a function for tests, which takes arrays and returns a new array.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/cpu/csrc/calls.h"
#include "backends/cpu/csrc/cpu.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace unladen::cpu {
namespace {

template <typename T, size_t n_dims>
using In = nb::ndarray<const T, nb::ndim<n_dims>, nb::c_contig, nb::device::cpu>;
using Row = In<float, 1>;
using Rows = In<float, 2>;
using Cube = In<float, 3>;
using Raw = In<uint8_t, 1>;

template <typename Array>
auto view(const Array &array) {
    calls::View<std::remove_const_t<typename Array::Scalar>> v{array.data(), {}};
    for (size_t i = 0; i < array.ndim(); i++) v.shape.push_back(array.shape(i));
    return v;
}

std::optional<calls::Floats> perhaps(const std::optional<Row> &row) {
    return row ? std::optional(view(*row)) : std::nullopt;
}

template <typename T>
nb::object to_numpy(std::vector<T> values, const std::vector<size_t> &shape) {
    auto *data = new std::vector<T>(std::move(values));
    nb::capsule owner(data, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(data->data(), shape.size(), shape.data(), owner));
}

nb::object to_numpy(calls::Result result) {
    return to_numpy(std::move(result.values), result.shape);
}

nb::object rms_norm(Row x, std::optional<Row> w, float eps, const std::string &level) {
    return to_numpy(calls::rms_norm(view(x), perhaps(w), eps, level));
}

nb::object layer_norm(Row x, std::optional<Row> w, std::optional<Row> b, float eps,
                      const std::string &level) {
    return to_numpy(calls::layer_norm(view(x), perhaps(w), perhaps(b), eps, level));
}

nb::object rope(Rows x, Rows cs, bool neox, const std::string &level) {
    return to_numpy(calls::rope(view(x), view(cs), neox, level));
}

nb::object activate(Row x, const std::string &act, const std::string &level) {
    return to_numpy(calls::activate(view(x), act, level));
}

nb::object glu(Row gate, Row up, const std::string &act, const std::string &level) {
    return to_numpy(calls::glu(view(gate), view(up), act, level));
}

nb::object add(Row a, Row b, const std::string &level) {
    return to_numpy(calls::add(view(a), view(b), level));
}

nb::object largest(Row x, const std::string &level) {
    return to_numpy(calls::largest(view(x), level));
}

nb::object scale_add(Row y, Row x, float s, const std::string &level) {
    return to_numpy(calls::scale_add(view(y), view(x), s, level));
}

nb::object kv_store(Rows k, Rows v, const std::string &k_type, const std::string &v_type,
                    const std::string &level) {
    auto [k_bytes, v_bytes] = calls::kv_store(view(k), view(v), k_type, v_type, level);
    const size_t n_k = k_bytes.size(), n_v = v_bytes.size();
    return nb::make_tuple(to_numpy(std::move(k_bytes), {n_k}), to_numpy(std::move(v_bytes), {n_v}));
}

nb::object attention(Cube q, Cube k, Cube v, int block_tokens, In<int32_t, 1> block_table,
                     In<int32_t, 2> seen, const std::string &k_type, const std::string &v_type,
                     float scale, float softcap, std::optional<Row> slopes,
                     std::optional<Row> sinks, const std::string &level) {
    return to_numpy(calls::attention({view(q), view(k), view(v), block_tokens, view(block_table),
                                      view(seen), k_type, v_type, scale, softcap, perhaps(slopes),
                                      perhaps(sinks)},
                                     level));
}

nb::object dequantize(const std::string &type, Raw raw, int n, const std::string &level) {
    return to_numpy(calls::dequantize(type, view(raw), n, level));
}

nb::object matmul(const std::string &type, Raw w, int n_rows_w, int n_cols, Rows x,
                  const std::string &level, bool precise, calls::Range n_range,
                  calls::Range t_range, bool interleaved) {
    return to_numpy(calls::matmul(type, view(w), n_rows_w, n_cols, view(x), level, precise,
                                  n_range, t_range, interleaved));
}

nb::object screened(const std::string &type, Raw w, int n_rows_w, int n_cols, Rows x,
                    const std::string &level) {
    auto [whole, coarse, reach, lengths, more, off] =
        calls::screened(type, view(w), n_rows_w, n_cols, view(x), level);
    return nb::make_tuple(to_numpy(whole), to_numpy(coarse), to_numpy(reach), to_numpy(lengths),
                          to_numpy(more), to_numpy(off));
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
    m.def("largest", &largest, "x"_a, "level"_a);
    m.def("scale_add", &scale_add, "y"_a, "x"_a, "s"_a, "level"_a);
    m.def("kv_store", &kv_store, "k"_a, "v"_a, "k_type"_a, "v_type"_a, "level"_a);
    m.def("attention", &attention, "q"_a, "k"_a, "v"_a, "block_tokens"_a, "block_table"_a,
          "seen"_a, "k_type"_a, "v_type"_a, "scale"_a, "softcap"_a, "slopes"_a.none(),
          "sinks"_a.none(), "level"_a);
    m.def("dequantize", &dequantize, "type"_a, "raw"_a, "n"_a, "level"_a);
    m.def("matmul", &matmul, "type"_a, "w"_a, "n_rows_w"_a, "n_cols"_a, "x"_a, "level"_a,
          "precise"_a, "n_range"_a, "t_range"_a, "interleaved"_a = false);
    m.def("screened", &screened, "type"_a, "w"_a, "n_rows_w"_a, "n_cols"_a, "x"_a, "level"_a);
    m.def("spared_bytes", &calls::spared_bytes, "level"_a, "type"_a);
}

}  // namespace unladen::cpu
