// Products with rounded activations, and rounding, for operations.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/csrc/ops/builder.h"

namespace unladen::cpu {

// n_bytes rounded up to whole cache lines.
inline size_t whole_lines(size_t n_bytes) { return (n_bytes + 63) / 64 * 64; }

// The kernel for a type. Throws std::invalid_argument if there is none.
const Linear &linear_kernel(const Kernels &k, const std::string &type, bool precise);
// The packer of the activations that this kernel reads.
const Packer &packer_for(const Kernels &k, const std::string &type, bool precise);

// Bytes for the rounded activations of any step of at most max_rows rows.
inline size_t packed_bytes(const Packer &packer, int max_rows, int n_cols) {
    return packer.bytes(std::max(max_rows, many_rows), n_cols);
}

// How interleaved rows are read. `screens`: only by their kernel's screen. `next`: see
// Weights::next.
struct ReadHints {
    bool screens = false;
    const uint8_t *next = nullptr;
};

// As Linear::run, row 0 being row `base` of w, a multiple of interleaved_rows where w has a copy.
void multiply(const Linear &kernel, const Matrix &w, int base, float *y, size_t y_stride,
              int n_first, int n_last, const void *act, int n_rows, int t_first, int t_last,
              ReadHints hints = {});

// An RMS norm of whole rows.
struct RowNorm {
    const float *w;  // [n_cols] or nullptr
    float eps;
};

// Rounds activations into the layout that a kernel reads.
struct Packing {
    const Packer *packer;
    const float *x;               // [rows][n_cols]
    int n_cols;
    std::optional<RowNorm> norm;  // comes first
    uint8_t *packed;
};
OperationPtr make_pack(const Kernels &k, Packing packing, Rows rows);

// The output of a product that is rounded for the only kernel that reads it.
struct PackedOutput {
    const Packer *packer;
    uint8_t *packed;
};
class Screening;
struct Product {
    std::vector<Matrix> weights;
    std::vector<const uint8_t *> packed;  // one per weight
    std::vector<float *> y;               // one per weight; one alone when gated
    std::optional<Activation> gated;      // y = act(weights[0] x) * (weights[1] x)
    std::optional<PackedOutput> output;   // instead of y, of a gated product
    const float *residual = nullptr;      // [rows][n_rows of weights[0]] or nullptr
    Rows rows = Rows::tokens;
    bool precise = false;
    int max_rows = 0;
    std::shared_ptr<Screening> screening;  // of the only weight, if only the largest y is needed
};
OperationPtr make_product(const Kernels &k, Product product);

}  // namespace unladen::cpu
