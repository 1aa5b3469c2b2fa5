// Weights in the order that kernels read fastest: copied in pieces between steps, or used from a
// file that another process wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "backends/cpu/csrc/huge_pages.h"
#include "backends/cpu/csrc/isa/contract/kernels.h"

namespace unladen::cpu {

// The version of the layout that Interleaving::pack() writes. Files have it in their names, so
// increase it with each change of the layout.
constexpr int packed_layout = 5;

// Rows from `from` on, and their copy. The first n_done bytes of them are interleaved at `to`, at
// the same distances. If the kernel divides rows, their second parts are at `rest`, and `known` has
// the known numbers of each interleaved_rows rows.
struct InterleavedCopy {
    const Linear *kernel;
    const uint8_t *from;
    size_t n_bytes;
    int n_cols;
    const uint8_t *to = nullptr, *rest = nullptr;
    size_t n_done = 0;
    std::vector<float> known{};

    // Bytes of a row, and of its second part alone.
    size_t row_bytes() const { return kernel->row_bytes(n_cols); }
    size_t row_rest_bytes() const { return kernel->row_rest_bytes(n_cols); }
    size_t n_rows() const { return n_bytes / row_bytes(); }
    // How many numbers `known` has once all rows are copied.
    size_t n_known() const { return kernel->n_known_of(n_rows(), n_cols); }
    // Sets the place of the copy to `at`, which has room for n_bytes.
    void place(const uint8_t *at) {
        to = at;
        rest = at + n_bytes - n_rows() * row_rest_bytes();
        known.resize(n_known());
    }
    // The copies of row `row` and of those after it.
    Weights weights_at(size_t row) const {
        return {to + row * (row_bytes() - row_rest_bytes()), true, rest + row * row_rest_bytes(),
                known.data() + kernel->n_known_of(row, n_cols)};
    }
    // The copy of the row at address `row`; nullptr where it isn't copied yet.
    const uint8_t *find(const uint8_t *row) const {
        const auto at = static_cast<size_t>(row - from);
        return at < n_done ? weights_at(at / row_bytes()).data : nullptr;
    }
};

class Interleaving {
public:
    // The copy to which n_rows rows at `from` will belong, valid as long as this object; nullptr if
    // their kernel reads no copy. Rows that begin inside others belong to the others' copy.
    const InterleavedCopy *add(const Linear &kernel, const uint8_t *from, int n_rows, int n_cols);
    // The rows to be copied: addresses and bytes.
    std::vector<std::pair<const uint8_t *, size_t>> wanted() const;
    // Allocates memory for the rows at these addresses of wanted(). Throws std::system_error if the
    // system has none.
    void start(const std::vector<const uint8_t *> &from);
    // Copies the next rows, about n_bytes, in whole sixteens and at least one of these. Stops
    // before a huge page that they wouldn't fill. Returns addresses and bytes of the copied rows.
    std::vector<std::pair<const uint8_t *, size_t>> advance(size_t n_bytes);
    // The rows of wanted() at `from`; throws std::out_of_range.
    InterleavedCopy &at(const uint8_t *from);
    // Packs all rows of wanted() at `from` into `to`, and their known numbers into `known`.
    void pack(const uint8_t *from, uint8_t *to, float *known);
    // Uses the results of pack() at `to` and `known` as the copy of the rows at `from`. `to` must
    // exist as long as this object.
    void adopt(const uint8_t *from, const uint8_t *to, const float *known);

private:
    std::deque<InterleavedCopy> copies_;
    std::unique_ptr<HugeMemory> memory_;
    std::deque<InterleavedCopy *> waiting_;
};

}  // namespace unladen::cpu
