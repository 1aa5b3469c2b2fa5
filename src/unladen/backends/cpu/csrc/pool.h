// One persistent thread pool for the process: fork and join around the tiles of one operation.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
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

// A region, or none, and who does it: up to so many threads; `yields`: fewer nearly do, so where
// other programs are on the cores fewer are asked.
struct Stage {
    Region *region = nullptr;
    Cut cut{};
    int n_threads = 1;
    bool yields = false;
};

// Regions one after another.
class Sequence {
public:
    virtual ~Sequence() = default;
    // What comes next; without a region: nothing. Called by one thread at a time, by none before
    // all tiles of the region before are done.
    virtual Stage next() = 0;
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
    // The process's pool; never destroyed, so that threads may still sleep in it at exit. A forked
    // child has none of its parent's threads and makes a pool of its own.
    static Pool &instance();

    static constexpr int max_threads = 255;
    static constexpr int max_tiles = (1 << 20) - 1;

    // Runs every tile of each region on the caller and workers, and returns when all are done. Each
    // thread has a run of neighbouring tiles of its own and takes them in order, so that what the
    // hardware reads ahead is read once; whoever has none left takes the last of somebody else's.
    // So nobody waits for a thread to wake. The caller goes on from region to region; where it is
    // interrupted while tiles are computed apart, a worker does so in its place. `after_tiles` is
    // called on the caller's thread between its tiles, with how many were done. Throws what
    // sequence.next() threw.
    template <class AfterTiles>
    void run(Sequence &sequence, AfterTiles &&after_tiles);
    // The same of one region.
    template <class AfterTiles>
    void run(const Stage &stage, AfterTiles &&after_tiles);

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
    // How often a worker went on in the caller's place.
    uint32_t n_relieved() const { return n_relieved_.load(std::memory_order_relaxed); }

    // Held by whoever calls run(): one sequence at a time.
    std::mutex &mutex() { return mutex_; }

private:
    using Clock = Crowding::Clock;

    // What is left of a thread's tiles in one word, so that a worker that was late for one region
    // can't mistake the next one's tiles: serial | n_threads | end | next.
    struct alignas(64) Share {
        std::atomic<uint64_t> left{0};
        // How many tiles the thread has finished, whosever. A counter that all share travels from
        // core to core with every tile: with tiles of 32 KiB that is a twentieth of the time.
        std::atomic<uint32_t> finished{0};
        // The tile that the thread computes apart, see tile_word(); 0: none.
        std::atomic<uint64_t> apart{0};
        // The core on which the thread took up its last region; -1: it sleeps.
        std::atomic<int> cpu{-1};
        // Whether part() keeps the thread from a core; for whoever holds pinning_.
        bool is_parted = false;
    };
    static constexpr uint64_t taken_back = ~uint64_t{0};
    // Of a region, so that nobody who was late takes back another one's.
    static uint64_t tile_word(uint64_t serial, int tile) { return serial << 20 | (tile + 1); }
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
    // Does a tile of the region that another thread computes apart; whether there was any.
    bool take_back(uint64_t serial, int thread);
    // Takes tiles until none is left. What one took, where tiles are computed apart; else 0.
    template <class AfterTiles>
    Clock::duration take_all(int thread, AfterTiles &&after_tiles);

    // Of who goes on, which is the caller at first, then whoever claim()s the end of a region. Does
    // the next regions itself until one is published, or the sequence ends.
    template <class AfterTiles>
    void go_on(int thread, AfterTiles &&after_tiles);
    // Whether the region is for several threads, and published.
    bool begin(const Stage &stage);
    void publish(Region &region, Cut cut, int n_threads);
    // `lost`: how long was waited for others, where it was long.
    void end_region(int thread, Clock::duration lost);
    void end_sequence();
    bool claim(uint64_t serial);

    void finish(int n_tiles, int thread);
    bool all_finished() const;
    // Of the caller: waits for the end of the region, and says whether it is the one that goes on.
    bool wait_for_rest(uint64_t serial, Clock::duration tile_time);
    // Of workers: goes on in the caller's place, where it is interrupted; whether there was
    // anything to do.
    bool relieve(uint64_t seen, uint64_t serial, int thread, Clock::duration tile_time);
    void call_the_caller();
    void sleep_until_published(uint64_t seen, int thread);
    // Keeps workers that took up the region on the caller's core from it, until they sleep or are
    // found on another of his: where another program has a core to itself a scheduler leaves them
    // together.
    void part(int n_threads);

    Share shares_[max_threads];
    alignas(64) std::atomic<uint64_t> published_{0};  // the last region, see pack()
    std::atomic<uint64_t> serial_{0};  // of that, stored after it
    alignas(64) std::atomic<uint64_t> claimed_{1};  // the next one's, once somebody goes on to it
    std::atomic<bool> ended_{true};
    alignas(64) std::atomic<bool> caller_sleeps_{false};
    std::atomic<uint32_t> n_calls_{0};  // to the caller that sleeps
    alignas(64) std::atomic<uint32_t> wake_{0};
    std::atomic<int> n_sleeping_{0};
    std::atomic<uint32_t> n_tiles_{0}, n_taken_back_{0}, n_relieved_{0};
    std::atomic<bool> joint_{false}, apart_{false};
    Region *region_ = nullptr;
    // For who goes on.
    Sequence *sequence_ = nullptr;
    std::exception_ptr failure_;
    struct {
        int n_threads;
        bool yields, chooses;
        double cost;
        Clock::time_point start;
    } stage_{};
    Crowding crowding_;
    Clock::time_point parted_{};
    // workers_ and placement_ change under pinning_ as well as mutex().
    std::vector<std::thread::native_handle_type> workers_;
    std::shared_ptr<const Placement> placement_;
    std::mutex pinning_, mutex_;
};

template <class AfterTiles>
void Pool::run(Sequence &sequence, AfterTiles &&after_tiles) {
    sequence_ = &sequence;
    ended_.store(false);
    go_on(0, after_tiles);
    while (!ended_.load()) {
        const uint64_t serial = serial_.load();
        const Clock::duration tile_time = take_all(0, after_tiles);
        if (wait_for_rest(serial, tile_time)) go_on(0, after_tiles);
    }
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

template <class AfterTiles>
void Pool::run(const Stage &stage, AfterTiles &&after_tiles) {
    struct One final : Sequence {
        explicit One(const Stage &stage) : stage(stage) {}
        Stage next() override { return std::exchange(stage, {}); }
        Stage stage;
    } one(stage);
    run(one, after_tiles);
}

template <class AfterTiles>
Pool::Clock::duration Pool::take_all(int thread, AfterTiles &&after_tiles) {
    const bool apart = apart_.load(std::memory_order_relaxed);
    const auto start = apart ? Clock::now() : Clock::time_point{};
    int n_done = 0;
    while (const int n = take_some(thread)) {
        after_tiles(n);
        n_done += n;
    }
    return apart ? (Clock::now() - start) / std::max(1, n_done) : Clock::duration{};
}

template <class AfterTiles>
void Pool::go_on(int thread, AfterTiles &&after_tiles) {
    try {
        for (Stage next = sequence_->next(); next.region; next = sequence_->next()) {
            if (begin(next)) return;
            const int n = next.cut.joint ? next.cut.n_tiles : 1;
            for (int i = 0; i < next.cut.n_tiles; i += n) {
                next.region->tiles(i, i + n, thread);
                after_tiles(n);
            }
            if (stage_.chooses) crowding_.did(stage_.cost, Clock::now() - stage_.start);
        }
    } catch (...) {
        failure_ = std::current_exception();
    }
    end_sequence();
}

}  // namespace unladen::cpu
