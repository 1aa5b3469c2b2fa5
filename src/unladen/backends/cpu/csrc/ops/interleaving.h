// Weights copied in the order that kernels read fastest: a piece at a time between steps, or as
// somebody else keeps them.
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

// Files may keep what Interleaving::pack() makes: change this where it changes.
constexpr int packed_layout = 5;

// Rows from `from` on, of which the first n_done bytes lie interleaved at `to`, at the same
// distances; where the kernel divides them the second parts lie at `rest`, and what is known of
// each interleaved_rows is in `known`.
struct InterleavedCopy {
    const Linear *kernel;
    const uint8_t *from;
    size_t n_bytes;
    int n_cols;
    const uint8_t *to = nullptr, *rest = nullptr;
    size_t n_done = 0;
    std::vector<float> known{};

    // Bytes of a row: all, and of its second part.
    size_t row_bytes() const { return kernel->row_bytes(n_cols); }
    size_t row_rest_bytes() const { return kernel->row_rest_bytes(n_cols); }
    size_t n_rows() const { return n_bytes / row_bytes(); }
    // How many numbers `known` has once rows are copied.
    size_t n_known() const { return kernel->n_known_of(n_rows(), n_cols); }
    // They are to lie at `at`, n_bytes of it.
    void place(const uint8_t *at) {
        to = at;
        rest = at + n_bytes - n_rows() * row_rest_bytes();
        known.resize(n_known());
    }
    // Row `row` and those after it.
    Weights weights_at(size_t row) const {
        return {to + row * (row_bytes() - row_rest_bytes()), true, rest + row * row_rest_bytes(),
                known.data() + kernel->n_known_of(row, n_cols)};
    }
    // Where the row lies interleaved that was at `row`, one of these; nullptr: it doesn't yet.
    const uint8_t *find(const uint8_t *row) const {
        const auto at = static_cast<size_t>(row - from);
        return at < n_done ? weights_at(at / row_bytes()).data : nullptr;
    }
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
    // The rows of wanted() at `from`; throws std::out_of_range.
    InterleavedCopy &at(const uint8_t *from);
    // Copies all of these to `to`, n_bytes of it, and what is known of them.
    void pack(const uint8_t *from, uint8_t *to, float *known);
    // The rows at `from` lie at `to` as pack() leaves them, for as long as this is used.
    void adopt(const uint8_t *from, const uint8_t *to, const float *known);

private:
    std::deque<InterleavedCopy> copies_;
    std::unique_ptr<HugeMemory> memory_;
    std::deque<InterleavedCopy *> waiting_;
};

}  // namespace unladen::cpu
