#include "backends/cpu/csrc/quantize.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cpu/csrc/pool.h"
#include "backends/cpu/csrc/write_at.h"

namespace unladen::cpu {
namespace {

// How many weights a thread converts at a time; as float32 and as blocks they fit into L2.
constexpr int64_t tile_weights = 128 * 1024;

class Work : public Region {
public:
    explicit Work(const Requantize &work, int n_threads) : work_(work), scratch_(n_threads) {
        // Importance belongs to one matrix, so no tile has rows of two matrices.
        rows_per_part_ = work.importance ? work.rows_per_matrix : work.n_rows;
        rows_per_tile_ = std::clamp<int64_t>(tile_weights / work.n_cols, 1, rows_per_part_);
        while (n_tiles() > Pool::max_tiles) rows_per_tile_ *= 2;
        // Allocated here, where the caller gets the exception for too little memory.
        for (Scratch &scratch : scratch_) {
            scratch.x.reset(new float[size_t(rows_per_tile_) * work.n_cols]);
            scratch.blocks.reset(new uint8_t[size_t(rows_per_tile_) * work.row_bytes]);
        }
    }

    int64_t n_tiles() const { return work_.n_rows / rows_per_part_ * tiles_per_part(); }

    void tiles(int first, int last, int thread) override {
        for (int i = first; i < last; i++) tile(i, thread);
    }

    void tile(int index, int thread) {
        if (outcome_.load(std::memory_order_relaxed) != Requantized::done) return;
        const int64_t part = index / tiles_per_part();
        const int64_t first = index % tiles_per_part() * rows_per_tile_;
        const int64_t n_rows = std::min(rows_per_tile_, rows_per_part_ - first);
        const float *importance =
            work_.importance ? work_.importance + part * work_.n_cols : nullptr;
        convert(part * rows_per_part_ + first, n_rows, importance, scratch_[thread]);
    }

    void stop(Requantized::Outcome outcome, int error = 0) {
        auto expected = Requantized::done;
        if (outcome_.compare_exchange_strong(expected, outcome)) error_ = error;
    }

    Requantized result() const { return {outcome_.load(), error_}; }

private:
    struct Scratch {
        std::unique_ptr<float[]> x;
        std::unique_ptr<uint8_t[]> blocks;
    };

    int64_t tiles_per_part() const {
        return (rows_per_part_ + rows_per_tile_ - 1) / rows_per_tile_;
    }

    void convert(int64_t row, int64_t n_rows, const float *importance, Scratch &scratch) {
        const size_t n = size_t(n_rows) * work_.n_cols;
        work_.read(scratch.x.get(), work_.source + row * work_.source_row_bytes, int(n));
        if (!work_.finite(scratch.x.get(), n)) return stop(Requantized::strange);
        const QuantizeArgs args{scratch.x.get(), importance, int(n_rows), work_.n_cols};
        if (!work_.write(scratch.blocks.get(), args)) return stop(Requantized::beyond);
        const int error =
            write_at(work_.file, scratch.blocks.get(), size_t(n_rows) * work_.row_bytes,
                     work_.offset + row * work_.row_bytes);
        if (error != 0) stop(Requantized::failed, error);
    }

    const Requantize &work_;
    std::vector<Scratch> scratch_;
    int64_t rows_per_part_, rows_per_tile_;
    std::atomic<Requantized::Outcome> outcome_{Requantized::done};
    int error_ = 0;
};

}  // namespace

Requantized requantize(const Requantize &work, int n_threads, bool (*interrupted)()) {
    n_threads = std::clamp(n_threads, 1, Pool::max_threads);
    Work region(work, n_threads);
    Pool &pool = Pool::instance();
    const std::lock_guard<std::mutex> alone(pool.mutex());
    pool.run({&region, {int(region.n_tiles())}, n_threads}, [&](int) {
        if (interrupted()) region.stop(Requantized::interrupted);
    });
    return region.result();
}

}  // namespace unladen::cpu
