#include "backends/cpu/csrc/program.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace unladen::cpu {
namespace {

// Below this a region costs more to share than it saves: two cache-line transfers and a wake.
constexpr double worth_sharing_ns = 4000;
constexpr int most_of_small = 16;  // tokens of a small step
// Threads never share a cache line, nor a page.
constexpr size_t scratch_alignment = 4096;

// Gives the system what lies there; whoever reads it again finds zeros.
void drop([[maybe_unused]] uint8_t *p, [[maybe_unused]] size_t n_bytes) {
#if defined(__linux__)
    madvise(p, n_bytes, MADV_DONTNEED);  // refused: it stays
#endif
}

}  // namespace

void Program::FreeDeleter::operator()(void *p) const { std::free(p); }

void Program::add(std::unique_ptr<Operation> op) {
    operations_.push_back(std::make_unique<OperationRegion>(std::move(op), running_));
}

int64_t Program::now_ns() {
    auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

Stage Program::Regions::next() {
    if (at_ == program_.operations_.size() ||
        program_.running_.cancelled.load(std::memory_order_relaxed))
        return {};
    OperationRegion &region = *program_.operations_[at_++];
    const Tiling tiling = region.operation().prepare(step_);
    tile_ns_.store(tiling.cost / std::max(1, tiling.n_tiles), std::memory_order_relaxed);
    // Small steps wait for memory, of which fewer threads get nearly as much.
    const bool is_small = step_.n_tokens <= most_of_small;
    const int n_threads = is_small ? program_.n_threads_ : program_.n_threads_batch_;
    return {&region,
            {tiling.n_tiles, tiling.joint, tiling.apart, tiling.cost},
            tiling.cost < worth_sharing_ns ? 1 : n_threads,
            is_small};
}

void Program::reserve_scratch() {
    const int n_threads = std::max(n_threads_, n_threads_batch_);
    const bool is_small = running_.step->n_tokens <= most_of_small;
    if (!scratch_) {
        size_t largest = 1;
        for (auto &region : operations_)
            largest = std::max(largest, region->operation().scratch_bytes());
        const size_t stride = (largest + scratch_alignment - 1) / scratch_alignment *
                              scratch_alignment;
        scratch_.reset(static_cast<uint8_t *>(
            std::aligned_alloc(scratch_alignment, stride * n_threads)));
        if (!scratch_) throw std::bad_alloc();
        running_.scratch = scratch_.get();
        running_.scratch_stride = stride;
    } else if (is_small && !was_small_) {
        drop(scratch_.get(), running_.scratch_stride * n_threads);
    }
    was_small_ = is_small;
}

}  // namespace unladen::cpu
