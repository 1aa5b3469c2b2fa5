// Weights copied, a piece at a time between steps, in the order that kernels read fastest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "backends/cpu/csrc/huge_pages.h"
#include "backends/cpu/csrc/isa/kernels.h"

namespace unladen::cpu {

// Rows from `from` on, of which the first n_done bytes lie interleaved at `to`, at the same
// distances; of a kernel with a screen the second parts lie at `rest`, and how far each
// interleaved_rows of them reach is in `reach`.
struct InterleavedCopy {
    const Linear *kernel;
    const uint8_t *from;
    size_t n_bytes;
    int n_cols;
    uint8_t *to = nullptr, *rest = nullptr;
    size_t n_done = 0;
    std::vector<float> reach{};

    // Bytes of a row: all, and of its second part.
    size_t row_bytes() const { return n_blocks() * kernel->block_bytes; }
    size_t row_rest_bytes() const { return n_blocks() * kernel->rest_bytes; }
    // Row `row` and those after it.
    Weights weights_at(size_t row) const {
        return {to + row * (row_bytes() - row_rest_bytes()), true, rest + row * row_rest_bytes()};
    }

private:
    size_t n_blocks() const { return static_cast<size_t>(n_cols) / kernel->block_size; }
};

class Interleaving {
public:
    // The copy that n_rows rows at `from` are to be part of, valid as long as this; nullptr where
    // their kernel wants none. Rows that begin inside others belong to these.
    const InterleavedCopy *add(const Linear &kernel, const uint8_t *from, int n_rows, int n_cols);
    // Where the rows lie that are to be copied, and how many bytes.
    std::vector<std::pair<const uint8_t *, size_t>> wanted() const;
    // Makes room for the rows at these addresses of wanted(). Throws std::system_error where the
    // system has none.
    void start(const std::vector<const uint8_t *> &from);
    // Copies the next rows, whole sixteens of them and one at least, of as many matrices as about
    // n_bytes take; but none that would begin a huge page which these don't fill. Says which they
    // were.
    std::vector<std::pair<const uint8_t *, size_t>> advance(size_t n_bytes);

private:
    std::deque<InterleavedCopy> copies_;
    std::unique_ptr<HugeMemory> memory_;
    std::deque<InterleavedCopy *> waiting_;
};

}  // namespace unladen::cpu
