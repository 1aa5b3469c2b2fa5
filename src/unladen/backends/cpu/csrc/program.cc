#include "backends/cpu/csrc/program.h"

#include <algorithm>
#include <chrono>
#include <new>

namespace unladen::cpu {
namespace {

// Regions below this cost run on one thread: sharing takes two transfers of a cache line and a
// wake.
constexpr double worth_sharing_ns = 4000;

// Threads' scratch memories begin at multiples of this. Threads that share a cache line slow each
// other down.
constexpr size_t page = 4096;

}  // namespace

void Program::FreeDeleter::operator()(void *p) const {
    operator delete(p, std::align_val_t{page});
}

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
    // Small steps wait for memory, which fewer threads read nearly as fast.
    const bool is_small = step_.n_tokens <= 16;
    const int n_threads = is_small ? program_.n_threads_ : program_.n_threads_batch_;
    return {&region,
            {tiling.n_tiles, tiling.joint, tiling.apart, tiling.cost},
            tiling.cost < worth_sharing_ns ? 1 : n_threads,
            is_small};
}

void Program::reserve_scratch() {
    if (scratch_) return;
    size_t largest = 64;
    for (auto &region : operations_)
        largest = std::max(largest, region->operation().scratch_bytes());
    const size_t stride = (largest + page - 1) / page * page;
    int n_threads = std::max(n_threads_, n_threads_batch_);
    void *memory = operator new(stride * n_threads, std::align_val_t{page});
    scratch_.reset(static_cast<uint8_t *>(memory));
    running_.scratch = scratch_.get();
    running_.scratch_stride = stride;
}

}  // namespace unladen::cpu
