#include "backends/cpu/csrc/ops/interleaving.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>

#include "backends/cpu/csrc/pool.h"

namespace unladen::cpu {
namespace {

size_t in_lines(size_t n_bytes) { return (n_bytes + 63) / 64 * 64; }

// Copies the next n bytes of rows; `to` is copy.to, writable.
void copy_next(InterleavedCopy &copy, size_t n, uint8_t *to) {
    const size_t row = copy.n_done / copy.row_bytes();
    const Linear &kernel = *copy.kernel;
    const int n_rows = static_cast<int>(n / copy.row_bytes());
    const uint8_t *rows = copy.from + copy.n_done;
    const size_t first_bytes = copy.row_bytes() - copy.row_rest_bytes();
    uint8_t *rest = to + (copy.rest - copy.to);
    kernel.interleave(to + row * first_bytes, rest + row * copy.row_rest_bytes(),
                      copy.known.data() + kernel.n_known_of(row, copy.n_cols), rows, n_rows,
                      copy.n_cols);
    copy.n_done += n;
}

}  // namespace

const InterleavedCopy *Interleaving::add(const Linear &kernel, const uint8_t *from, int n_rows,
                                         int n_cols) {
    if (!kernel.interleave) return nullptr;
    for (const InterleavedCopy &copy : copies_)
        if (from >= copy.from && from < copy.from + copy.n_bytes)
            return copy.kernel == &kernel && copy.n_cols == n_cols ? &copy : nullptr;
    InterleavedCopy copy{&kernel, from, 0, n_cols};
    copy.n_bytes = copy.row_bytes() * (n_rows / interleaved_rows * interleaved_rows);
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
    for (InterleavedCopy *copy : waiting_) {
        copy->place(std::exchange(at, at + in_lines(copy->n_bytes)));
    }
}

std::vector<std::pair<const uint8_t *, size_t>> Interleaving::advance(size_t n_bytes) {
    if (waiting_.empty()) throw std::logic_error("nothing is left to interleave");
    std::vector<std::pair<const uint8_t *, size_t>> done;
    // The pool's mutex keeps steps from running meanwhile.
    std::lock_guard lock(Pool::instance().mutex());
    const size_t from = waiting_.front()->to + waiting_.front()->n_done - memory_->data();
    const size_t end = (from + n_bytes) / huge_page_bytes * huge_page_bytes;
    while (!waiting_.empty()) {
        InterleavedCopy &copy = *waiting_.front();
        const size_t tile = copy.row_bytes() * interleaved_rows;
        const size_t at = copy.to + copy.n_done - memory_->data();
        const size_t room = at < end ? (end - at) / tile * tile : 0;
        const size_t n = std::min(std::max(room, done.empty() ? tile : 0),
                                  copy.n_bytes - copy.n_done);
        if (n == 0) break;
        done.emplace_back(copy.from + copy.n_done, n);
        copy_next(copy, n, const_cast<uint8_t *>(copy.to));  // points into memory_
        if (copy.n_done == copy.n_bytes) waiting_.pop_front();
    }
    return done;
}

InterleavedCopy &Interleaving::at(const uint8_t *from) {
    for (InterleavedCopy &copy : copies_)
        if (copy.from == from) return copy;
    throw std::out_of_range("no rows to be interleaved begin there");
}

void Interleaving::pack(const uint8_t *from, uint8_t *to, float *known) {
    InterleavedCopy copy = at(from);
    copy.place(to);
    copy_next(copy, copy.n_bytes, to);
    std::copy(copy.known.begin(), copy.known.end(), known);
}

void Interleaving::adopt(const uint8_t *from, const uint8_t *to, const float *known) {
    InterleavedCopy &copy = at(from);
    if (copy.to) throw std::logic_error("these rows have a copy");
    copy.place(to);
    std::copy_n(known, copy.n_known(), copy.known.begin());
    copy.n_done = copy.n_bytes;
}

}  // namespace unladen::cpu
