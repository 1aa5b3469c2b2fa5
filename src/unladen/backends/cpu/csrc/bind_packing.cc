// Parts of unladen._native.cpu: how activations lie packed.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <set>

#include "backends/cpu/csrc/cpu.h"
#include "backends/cpu/csrc/ops/ops.h"

namespace nb = nanobind;

namespace unladen::cpu {
namespace {

// Of the activations that weights of `types` read, each format once.
size_t packed_bytes_of(const std::string &level, const std::vector<std::string> &types, int n_cols,
                       int max_rows, bool precise) {
    const Kernels &k = *kernels_for(level);
    std::set<const Packer *> packers;
    for (auto &type : types) packers.insert(&packer_for(k, type, precise));
    size_t total = 0;
    for (const Packer *packer : packers)
        total += (packed_bytes(*packer, max_rows, n_cols) + 63) / 64 * 64;
    return total;
}

// How many numbers share a scale.
int packed_block(const std::string &level, const std::string &type, bool precise) {
    return packer_for(*kernels_for(level), type, precise).block;
}

}  // namespace

void bind_packing(nb::module_ &m) {
    m.def("packed_bytes", &packed_bytes_of);
    m.def("packed_block", &packed_block);
    m.def("head_linear_scratch_bytes",
          [](const std::string &level, const std::string &type, int n_heads, int n_cols,
             int max_rows, bool precise) {
              return head_linear_scratch_bytes(*kernels_for(level), type, n_heads, n_cols, max_rows,
                                               precise);
          });
}

}  // namespace unladen::cpu
