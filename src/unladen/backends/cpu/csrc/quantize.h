// Converts a tensor from one block format to another, straight into a file.
#pragma once

#include <cstdint>

#include "backends/cpu/csrc/isa/contract/kernels.h"

namespace unladen::cpu {

struct Requantize {
    Kernels::Dequantize read;
    Kernels::Quantize write;
    bool (*finite)(const float *x, size_t n);
    const uint8_t *source;
    const float *importance;  // [n_rows / rows_per_matrix][n_cols] or nullptr
    int64_t n_rows, rows_per_matrix;
    int n_cols;
    int64_t source_row_bytes, row_bytes;
    int file;                 // a descriptor to write to, from `offset` on
    int64_t offset;
};

struct Requantized {
    // `strange`: the source has NaN or infinity. `beyond`: a scale is too large for the format.
    enum Outcome { done, interrupted, strange, beyond, failed } outcome;
    int error;  // errno, if the outcome is `failed`
};

// Converts on at most n_threads threads; each reads, converts and writes some rows at a time. The
// caller's thread calls `interrupted` now and then and stops when it returns true.
Requantized requantize(const Requantize &work, int n_threads, bool (*interrupted)());

}  // namespace unladen::cpu
