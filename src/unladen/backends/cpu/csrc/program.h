// A compiled segment: a flat list of operations over fixed addresses, run once per step.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "backends/cpu/csrc/isa/contract/kernels.h"
#include "backends/cpu/csrc/pool.h"

namespace unladen::cpu {

// A step's sizes and metadata; the arrays are those of the Python class Batch.
struct Step {
    int n_tokens = 0, n_outputs = 0, n_seqs = 0;
    const int32_t *q_start = nullptr;      // [n_seqs + 1]
    const int32_t *kv_len = nullptr;       // [n_seqs]
    const int32_t *index = nullptr;        // [n_tokens] of the token in its sequence
    const int32_t *sees_to = nullptr;      // [n_tokens] the last index that a token sees
    const int32_t *seq_of = nullptr;       // [n_tokens]
    const int32_t *block_table = nullptr;  // [n_seqs][table_stride], see Node::first_column
    int table_stride = 0;
    const int32_t *state_in = nullptr;     // [n_seqs] slot of recurrent state, below 0: zeros
    const int32_t *state_out = nullptr;    // [n_seqs] another slot
    const int32_t *adapter_of = nullptr;   // [n_seqs] set of adapters, below 0: none
    bool one_order = false;  // the order of a row's sums must not depend on the step's other rows
    bool chooses = true, shows_logits = true;  // whether results of argmax are read, and logits
};

// For how many rows to lay out activations if the step has n_rows. Layouts for few rows have
// another order of sums, which a step with `one_order` must not use.
inline int layout_rows(const Step &step, const Packer &packer, int n_rows) {
    const bool is_free = !step.one_order || packer.has_one_order;
    return is_free ? n_rows : std::max(n_rows, many_rows);
}

// The kinds of rows. `brought`: rows that the caller brings in place of embeddings, only as an
// input.
enum class Rows : int32_t { tokens, outputs, brought };

// How many rows of this kind an operation makes.
inline int count(const Step &step, Rows rows) {
    return rows == Rows::tokens ? step.n_tokens : step.n_outputs;
}

// How an operation is cut for this step. `cost`, in rough nanoseconds of one core, decides whether
// other threads help.
struct Tiling {
    int n_tiles;
    double cost;
    bool joint = false, apart = false;  // see Cut
};

class Operation {
public:
    virtual ~Operation() = default;
    // Called by one thread, before the first tile and after the operation before is done.
    virtual Tiling prepare(const Step &step) = 0;
    // `scratch`: scratch_bytes() bytes of the thread's own, aligned to 64.
    virtual void tile(const Step &step, int index, void *scratch) = 0;
    // Computes several neighbouring tiles, for operations that do so faster than one by one.
    virtual void tiles(const Step &step, int first, int last, void *scratch) {
        for (int i = first; i < last; i++) tile(step, i, scratch);
    }
    // A tile in two steps, for a Tiling that is `apart`: see Region.
    virtual void compute(const Step &, int, void *) { std::abort(); }
    virtual void commit(const Step &, int, void *) { std::abort(); }
    virtual size_t scratch_bytes() const { return 0; }
};

// The data that all regions of a program share.
struct Running {
    const Step *step = nullptr;
    uint8_t *scratch = nullptr;
    size_t scratch_stride = 0;
    std::atomic<bool> cancelled{false};
};

// Each operation has a region of its own: a thread may look at it after the region's end.
class OperationRegion final : public Region {
public:
    OperationRegion(std::unique_ptr<Operation> op, const Running &running)
        : op_(std::move(op)), running_(running) {}
    Operation &operation() { return *op_; }

    void tiles(int first, int last, int thread) override {
        if (running_.cancelled.load(std::memory_order_relaxed)) return;
        op_->tiles(*running_.step, first, last, scratch(thread));
    }
    void compute(int tile, int thread) override {
        op_->compute(*running_.step, tile, scratch(thread));
    }
    void commit(int tile, int thread) override {
        op_->commit(*running_.step, tile, scratch(thread));
    }

private:
    void *scratch(int thread) const {
        return running_.scratch + thread * running_.scratch_stride;
    }

    std::unique_ptr<Operation> op_;
    const Running &running_;
};

enum class Outcome { done, cancelled, interrupted };

class Program {
public:
    // `placement`: see Pool::place.
    Program(const Kernels *kernels, int n_threads, int n_threads_batch,
            std::shared_ptr<const Placement> placement)
        : kernels_(kernels), n_threads_(n_threads), n_threads_batch_(n_threads_batch),
          placement_(std::move(placement)) {}

    void add(std::unique_ptr<Operation> op);
    const Kernels &kernels() const { return *kernels_; }
    size_t n_operations() const { return operations_.size(); }

    // Runs all operations. The calling thread calls `interrupted` a few dozen times a second and
    // stops when it returns true.
    template <class Interrupted>
    Outcome run(const Step &step, Interrupted &&interrupted);
    // Makes a run in another thread end soon.
    void cancel() { running_.cancelled.store(true, std::memory_order_relaxed); }

private:
    const Kernels *kernels_;
    int n_threads_, n_threads_batch_;
    std::shared_ptr<const Placement> placement_;
    std::vector<std::unique_ptr<OperationRegion>> operations_;
    Running running_;
    struct FreeDeleter {
        void operator()(void *p) const;
    };
    std::unique_ptr<uint8_t, FreeDeleter> scratch_;

    void reserve_scratch();
    static int64_t now_ns();

    // Hands the regions of a step to the pool, one after another.
    class Regions final : public Sequence {
    public:
        Regions(Program &program, const Step &step) : program_(program), step_(step) {}
        Stage next() override;
        // The estimated time of a tile of the last region.
        double tile_ns() const { return tile_ns_.load(std::memory_order_relaxed); }

    private:
        Program &program_;
        const Step &step_;
        size_t at_ = 0;
        std::atomic<double> tile_ns_{0};
    };
};

// The time between two looks for signals, and the estimated work between two looks at the clock.
// Estimates would have to be off by a factor of a thousand before an interrupt felt slow.
constexpr int64_t poll_ns = 20'000'000;
constexpr double clock_ns = 100'000;

// Waits at its end, so that no thread works on the step or reads it any more.
struct Settled {
    ~Settled() { Pool::instance().settle(); }
};

template <class Interrupted>
Outcome Program::run(const Step &step, Interrupted &&interrupted) {
    std::lock_guard lock(Pool::instance().mutex());
    Pool::instance().place(placement_);
    const Placed placed(placement_.get());
    const Settled settled;
    running_.step = &step;
    running_.cancelled.store(false, std::memory_order_relaxed);
    reserve_scratch();
    bool was_interrupted = false;
    int64_t next_poll = now_ns() + poll_ns;
    double unseen_ns = 0;
    Regions regions(*this, step);
    auto poll = [&](int n_tiles) {
        // Reading the clock after every tile would cost small models a tenth of their time.
        unseen_ns += regions.tile_ns() * n_tiles;
        if (unseen_ns < clock_ns) return;
        unseen_ns = 0;
        if (now_ns() < next_poll) return;
        next_poll = now_ns() + poll_ns;
        if (interrupted()) {
            was_interrupted = true;
            running_.cancelled.store(true, std::memory_order_relaxed);
        }
    };
    Pool::instance().run(regions, poll);
    if (running_.cancelled.load(std::memory_order_relaxed))
        return was_interrupted ? Outcome::interrupted : Outcome::cancelled;
    return Outcome::done;
}

}  // namespace unladen::cpu
