// Parts of unladen._native.cpu: sizes of rounded activations, and how much of a head is screened.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "backends/cpu/csrc/cpu.h"
#include "backends/cpu/csrc/ops/products.h"
#include "backends/cpu/csrc/ops/screening.h"

namespace nb = nanobind;

namespace unladen::cpu {
namespace {

// Bytes of the largest step's activations, laid out for weights of `type`.
size_t packed_bytes_of(const std::string &level, const std::string &type, int n_cols, int max_rows,
                       bool precise) {
    return whole_lines(
        packed_bytes(packer_for(*kernels_for(level), type, precise), max_rows, n_cols));
}

// How many activations share a scale.
int packed_block(const std::string &level, const std::string &type, bool precise) {
    return packer_for(*kernels_for(level), type, precise).block;
}

}  // namespace

void bind_packing(nb::module_ &m) {
    m.def("packed_bytes", &packed_bytes_of);
    m.def("packed_block", &packed_block);
    m.attr("MOST_SCREENED") = Screening::most_rows;
}

}  // namespace unladen::cpu
