// Products of packed activations and their packing, as operations use them.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/csrc/ops/builder.h"

namespace unladen::cpu {

// Rooms that begin at a cache line.
inline size_t whole_lines(size_t n_bytes) { return (n_bytes + 63) / 64 * 64; }

// The kernel of a type; throws std::invalid_argument where there is none.
const Linear &linear_kernel(const Kernels &k, const std::string &type, bool precise);
// What packs the activations that it reads.
const Packer &packer_for(const Kernels &k, const std::string &type, bool precise);

// Room for what any step packs of at most max_rows rows.
inline size_t packed_bytes(const Packer &packer, int max_rows, int n_cols) {
    return packer.bytes(std::max(max_rows, many_rows), n_cols);
}

// How interleaved rows are read: by their kernel's screen alone; and what is read after them, see
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

// How activations come into the layout that a kernel reads.
struct Packing {
    const Packer *packer;
    const float *x;               // [rows][n_cols]
    int n_cols;
    std::optional<RowNorm> norm;  // comes first
    uint8_t *packed;
};
OperationPtr make_pack(const Kernels &k, Packing packing, Rows rows);

// Where a product is left in the layout of the one kernel that reads it.
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
    std::shared_ptr<Screening> screening;  // of the one weight, where only the largest of y counts
};
OperationPtr make_product(const Kernels &k, Product product);

}  // namespace unladen::cpu
