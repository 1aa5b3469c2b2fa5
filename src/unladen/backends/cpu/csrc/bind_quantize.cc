// Quantization of rows in memory, for tests, and of whole tensors into a file.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/cpu/csrc/cpu.h"
#include "backends/cpu/csrc/quantize.h"
#include "csrc/gil.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace unladen::cpu {
namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char *what) {
    if (!condition) throw std::invalid_argument(what);
}

Kernels::Quantize writer(const Kernels &kernels, const std::string &type) {
    Kernels::Quantize write = kernels.quantize(type.c_str());
    if (!write) throw std::invalid_argument("no kernel writes " + type);
    return write;
}

bool can_quantize(const std::string &type, const std::string &level) {
    return kernels_for(level)->quantize(type.c_str()) != nullptr;
}

// The blocks of all rows, one after another. None if a number is too large for the type.
nb::object quantize(const std::string &type, Matrix x, std::optional<Floats> importance,
                    size_t row_bytes, const std::string &level) {
    const Kernels::Quantize write = writer(*kernels_for(level), type);
    require(x.size() <= size_t(std::numeric_limits<int>::max()), "an array is too long");
    require(!importance || importance->size() == x.shape(1), "one importance for each column");
    auto *blocks = new std::vector<uint8_t>(x.shape(0) * row_bytes);
    nb::capsule owner(blocks,
                      [](void *p) noexcept { delete static_cast<std::vector<uint8_t> *>(p); });
    if (!write(blocks->data(), {x.data(), importance ? importance->data() : nullptr,
                                int(x.shape(0)), int(x.shape(1))}))
        return nb::none();
    const size_t shape[] = {blocks->size()};
    return nb::cast(nb::ndarray<nb::numpy, uint8_t>(blocks->data(), 1, shape, owner));
}

// `types`: those of source and result, likewise bytes of a row. Sizes: n_rows, rows_per_matrix,
// n_cols.
std::pair<std::string, int> requantize_tensor(
    const std::string &level, std::pair<std::string, std::string> types,
    std::pair<int64_t, int64_t> row_bytes, nb::tuple sizes, Bytes source,
    std::optional<Floats> importance, int file, int64_t offset, int n_threads) {
    const Kernels &kernels = *kernels_for(level);
    Requantize work{};
    work.read = kernels.dequantize(types.first.c_str());
    if (!work.read) throw std::invalid_argument("no kernel reads " + types.first);
    work.write = writer(kernels, types.second);
    work.finite = kernels.finite;
    work.source = source.data();
    work.n_rows = nb::cast<int64_t>(sizes[0]);
    work.rows_per_matrix = nb::cast<int64_t>(sizes[1]);
    work.n_cols = nb::cast<int>(sizes[2]);
    std::tie(work.source_row_bytes, work.row_bytes) = row_bytes;
    require(work.rows_per_matrix > 0 && work.n_cols > 0 && work.n_rows > 0 &&
                work.n_rows % work.rows_per_matrix == 0 &&
                source.size() == size_t(work.n_rows) * size_t(work.source_row_bytes),
            "the sizes don't agree");
    if (importance) {
        require(importance->size() ==
                    size_t(work.n_rows / work.rows_per_matrix) * size_t(work.n_cols),
                "one importance for each column of each matrix");
        work.importance = importance->data();
    }
    work.file = file;
    work.offset = offset;
    Requantized result;
    {
        const Unlocked unlocked;
        result = requantize(work, n_threads, is_interrupted);
    }
    if (result.outcome == Requantized::interrupted) throw nb::python_error();
    static constexpr const char *names[] = {"done", "interrupted", "strange", "beyond", "failed"};
    return {names[result.outcome], result.error};
}

}  // namespace

void bind_quantize(nb::module_ &m) {
    m.def("can_quantize", &can_quantize, "type"_a, "level"_a);
    m.def("quantize", &quantize, "type"_a, "x"_a, "importance"_a.none(), "row_bytes"_a, "level"_a);
    m.def("requantize_tensor", &requantize_tensor, "level"_a, "types"_a, "row_bytes"_a, "sizes"_a,
          "source"_a, "importance"_a.none(), "file"_a, "offset"_a, "n_threads"_a);
}

}  // namespace unladen::cpu
