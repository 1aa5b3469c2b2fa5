// One persistent thread pool for the process: fork and join around the tiles of one operation.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "backends/cpu/csrc/crowding.h"

namespace unladen::cpu {

// What a region runs: every tile once, on any thread.
class Region {
public:
    virtual ~Region() = default;
    virtual void tiles(int first, int last, int thread) = 0;
    // A tile in two steps, for cuts that are `apart`: all that takes time, in the thread's own
    // memory, and putting it where others look. Where a thread was interrupted between them another
    // one may have done the tile and gone on to other regions: then what is computed, maybe of
    // inputs that have changed since, is thrown away.
    virtual void compute(int tile, int thread);
    virtual void commit(int tile, int thread);
};

// How a region is cut. `joint`: neighbouring tiles are done faster at once, so that a thread takes
// half of those left to it at a time, and one only in the end. `apart`: see Region::compute.
struct Cut {
    int n_tiles;
    bool joint = false, apart = false;
    double cost = 0;  // in any unit: what is done in a time is compared
};

using Placement = std::vector<std::vector<int>>;

// Keeps the calling thread on the processors of `placement`'s first, until the end of its life.
class Placed {
public:
    explicit Placed(const Placement *placement);
    ~Placed();
    Placed(const Placed &) = delete;
    Placed &operator=(const Placed &) = delete;

private:
    std::vector<int> before_;
};

int current_cpu();

class Pool {
public:
    // The process's pool; never destroyed, so that threads may still sleep in it at exit.
    static Pool &instance();

    static constexpr int max_threads = 255;
    static constexpr int max_tiles = (1 << 20) - 1;

    // Runs every tile of `region` on the caller and at most n_threads - 1 workers, and returns when
    // all are done. Each thread has a run of neighbouring tiles of its own and takes them in order,
    // so that what the hardware reads ahead is read once; whoever has none left takes the last of
    // somebody else's. So nobody waits for a thread to wake. `after_tiles` is called on the
    // caller's thread between its tiles, with how many were done. `yields`: fewer threads nearly
    // do, so where other programs are on the cores fewer are asked.
    template <class AfterTiles>
    void run(Region &region, Cut cut, int n_threads, AfterTiles &&after_tiles,
             bool yields = false);

    // Where the threads of the next regions may run: processors by thread, the caller's first,
    // repeated; nullptr: anywhere. The caller itself is not moved.
    void place(std::shared_ptr<const Placement> placement);

    // Waits for threads that are still at a tile which was taken back from them: afterwards none
    // looks at what regions work on.
    void settle();

    // What run() has seen of other programs; for whoever holds mutex().
    Crowding &crowding() { return crowding_; }
    // Tiles that were taken back so far.
    uint32_t n_taken_back() const { return n_taken_back_.load(std::memory_order_relaxed); }

    // Held by whoever calls run(): one region at a time.
    std::mutex &mutex() { return mutex_; }

private:
    // What is left of a thread's tiles in one word, so that a worker that was late for one region
    // can't mistake the next one's tiles: serial | n_threads | end | next.
    struct alignas(64) Share {
        std::atomic<uint64_t> left{0};
        // How many tiles the thread has finished, whosever. A counter that all share travels from
        // core to core with every tile: with tiles of 32 KiB that is a twentieth of the time.
        std::atomic<uint32_t> finished{0};
        // The tile that the thread computes apart, and 1; 0: none.
        std::atomic<uint32_t> apart{0};
        // The core on which the thread took up its last region; -1: it sleeps.
        std::atomic<int> cpu{-1};
        // Whether part() keeps the thread from a core; for whoever holds pinning_.
        bool is_parted = false;
    };
    static constexpr uint32_t taken_back = ~uint32_t{0};
    static uint64_t pack(uint64_t serial, uint64_t threads, uint64_t end, uint64_t next) {
        return serial << 48 | threads << 40 | end << 20 | next;
    }
    static uint32_t next_of(uint64_t word) { return word & max_tiles; }
    static uint32_t end_of(uint64_t word) { return word >> 20 & max_tiles; }
    static int threads_of(uint64_t word) { return word >> 40 & 255; }
    static constexpr uint64_t one_from_end = uint64_t{1} << 20;

    void grow(int n_workers);
    // For whoever holds pinning_.
    void pin(int thread);
    void work(int thread);
    // Takes and runs tiles, the thread's own next or somebody's last, and says how many: 0 where
    // none is left for it.
    int take_some(int thread);
    int take_from(int owner, int thread);
    void run_apart(int tile, int thread);
    // Does a tile that another thread computes apart; whether there was any.
    bool take_back();
    void publish(Region &region, Cut cut, int n_threads);
    void finish(int n_tiles, int thread);
    bool all_finished() const;
    // How long that took, where it took long. `tile_time`: what a tile takes, where tiles are
    // computed apart; else 0.
    Crowding::Clock::duration wait_for_rest(Crowding::Clock::duration tile_time);
    void sleep_until_published(uint64_t seen, int thread);
    // Keeps workers that took up the region on the caller's core from it, until they sleep or are
    // found on another of his: where another program has a core to itself a scheduler leaves them
    // together.
    void part(int n_threads);

    Share shares_[max_threads];
    alignas(64) std::atomic<uint64_t> published_{0};  // the last region, see pack()
    alignas(64) std::atomic<bool> caller_sleeps_{false};
    std::atomic<uint32_t> n_calls_{0};  // to the caller that sleeps
    alignas(64) std::atomic<uint32_t> wake_{0};
    std::atomic<int> n_sleeping_{0};
    std::atomic<uint32_t> n_tiles_{0}, n_taken_back_{0};
    std::atomic<bool> joint_{false}, apart_{false};
    Region *region_ = nullptr;
    Crowding crowding_;
    Crowding::Clock::time_point parted_{};
    uint64_t serial_ = 0;
    // workers_ and placement_ change under pinning_ as well as mutex().
    std::vector<std::thread::native_handle_type> workers_;
    std::shared_ptr<const Placement> placement_;
    std::mutex pinning_, mutex_;
};

template <class AfterTiles>
void Pool::run(Region &region, Cut cut, int n_threads, AfterTiles &&after_tiles, bool yields) {
    if (cut.n_tiles <= 0) return;
    const bool may_be_crowded = yields && n_threads > 1;
    const int most = may_be_crowded ? crowding_.limit(n_threads) : n_threads;
    const bool chooses = cut.apart && may_be_crowded && crowding_.is_crowded();
    cut.apart = chooses && crowding_.apart_is_faster();
    if (!cut.apart) n_threads = chooses ? crowding_.fewer(n_threads) : most;
    using Clock = Crowding::Clock;
    const auto start = chooses ? Clock::now() : Clock::time_point{};
    if (n_threads <= 1 || cut.n_tiles == 1) {
        const int n = cut.joint ? cut.n_tiles : 1;
        for (int i = 0; i < cut.n_tiles; i += n) {
            region.tiles(i, i + n, 0);
            after_tiles(n);
        }
    } else {
        grow(n_threads - 1);
        publish(region, cut, n_threads);
        int n_done = 0;
        while (const int n = take_some(0)) {
            after_tiles(n);
            n_done += n;
        }
        Clock::duration tile_time{};
        if (cut.apart) tile_time = (Clock::now() - start) / std::max(1, n_done);
        const auto waited = wait_for_rest(tile_time);
        if (yields && waited.count() > 0) crowding_.waited(waited, n_threads);
        part(n_threads);
    }
    if (chooses) crowding_.did(cut.cost, Clock::now() - start);
}

}  // namespace unladen::cpu
