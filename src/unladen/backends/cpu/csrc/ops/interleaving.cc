#include "backends/cpu/csrc/ops/interleaving.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>

#include "backends/cpu/csrc/pool.h"

namespace unladen::cpu {
namespace {

size_t in_lines(size_t n_bytes) { return (n_bytes + 63) / 64 * 64; }

size_t row_bytes(const InterleavedCopy &copy) {
    return static_cast<size_t>(copy.n_cols) / copy.kernel->block_size * copy.kernel->block_bytes;
}

}  // namespace

const InterleavedCopy *Interleaving::add(const Linear &kernel, const uint8_t *from, int n_rows,
                                         int n_cols) {
    if (!kernel.interleave) return nullptr;
    for (const InterleavedCopy &copy : copies_)
        if (from >= copy.from && from < copy.from + copy.n_bytes)
            return copy.kernel == &kernel && copy.n_cols == n_cols ? &copy : nullptr;
    InterleavedCopy copy{&kernel, from, 0, n_cols};
    copy.n_bytes = row_bytes(copy) * (n_rows / interleaved_rows * interleaved_rows);
    if (copy.n_bytes == 0) return nullptr;
    return &copies_.emplace_back(copy);
}

std::vector<std::pair<const uint8_t *, size_t>> Interleaving::wanted() const {
    std::vector<std::pair<const uint8_t *, size_t>> all;
    for (const InterleavedCopy &copy : copies_) all.emplace_back(copy.from, copy.n_bytes);
    return all;
}

void Interleaving::start(const std::vector<const uint8_t *> &from) {
    if (memory_) throw std::logic_error("interleaving has started");
    size_t n_bytes = 0;
    for (InterleavedCopy &copy : copies_) {
        if (std::find(from.begin(), from.end(), copy.from) == from.end()) continue;
        waiting_.push_back(&copy);
        n_bytes += in_lines(copy.n_bytes);
    }
    memory_ = std::make_unique<HugeMemory>(n_bytes);
    uint8_t *at = memory_->data();
    for (InterleavedCopy *copy : waiting_)
        copy->to = std::exchange(at, at + in_lines(copy->n_bytes));
}

std::pair<const uint8_t *, size_t> Interleaving::advance(size_t n_bytes) {
    if (waiting_.empty()) throw std::logic_error("nothing is left to interleave");
    // No step runs meanwhile.
    std::lock_guard lock(Pool::instance().mutex());
    InterleavedCopy &copy = *waiting_.front();
    const size_t tile = row_bytes(copy) * interleaved_rows, done = copy.n_done;
    const size_t n = std::min(std::max<size_t>(n_bytes / tile, 1) * tile, copy.n_bytes - done);
    copy.kernel->interleave(copy.to + done, copy.from + done,
                            static_cast<int>(n / tile) * interleaved_rows, copy.n_cols);
    copy.n_done += n;
    if (copy.n_done == copy.n_bytes) waiting_.pop_front();
    return {copy.from + done, n};
}

}  // namespace unladen::cpu
