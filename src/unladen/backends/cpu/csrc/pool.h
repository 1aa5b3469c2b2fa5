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

// A region runs every tile once, on any thread.
class Region {
public:
    virtual ~Region() = default;
    virtual void tiles(int first, int last, int thread) = 0;
    // A tile in two steps, for cuts that are `apart`. compute() works in the thread's own memory;
    // commit() stores the result where other threads read it. If a thread is interrupted between
    // the two, another thread may compute the tile, and all go on to other regions. The late
    // result, whose inputs may have changed meanwhile, is then dropped.
    virtual void compute(int tile, int thread);
    virtual void commit(int tile, int thread);
};

// How a region is cut. `joint`: several neighbouring tiles take less time together, so a thread
// takes half of the tiles left to it at a time, down to one. `apart`: see Region::compute.
struct Cut {
    int n_tiles;
    bool joint = false, apart = false;
    double cost = 0;  // in any unit: only costs per time are compared
};

// A region, or none, and the most threads that run it. `yields`: fewer threads are nearly as fast,
// so fewer run it while other programs use the cores.
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
    // The next region; a Stage without a region ends the sequence. Called by one thread at a time,
    // after all tiles of the region before are done.
    virtual Stage next() = 0;
};

using Placement = std::vector<std::vector<int>>;

// Keeps the calling thread on the first processors of `placement` while this object lives.
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
    // The pool of the process. It is never destroyed, so that threads may still sleep in it at
    // exit. A forked child, which has none of its parent's threads, creates its own pool.
    static Pool &instance();

    static constexpr int max_threads = 255;
    static constexpr int max_tiles = (1 << 20) - 1;

    // Runs every tile of each region on the caller and workers, and returns when all are done. Each
    // thread has a run of neighbouring tiles and takes them in order, so that what the hardware
    // reads ahead is read once. A thread that has none left takes the last tile of another one, so
    // no thread waits until another is awake. The caller goes on from region to region. If it is
    // interrupted while tiles are computed apart, a worker goes on in its place. `after_tiles` is
    // called on the caller's thread between its tiles, with the number of tiles done. Throws what
    // sequence.next() threw.
    template <class AfterTiles>
    void run(Sequence &sequence, AfterTiles &&after_tiles);
    // Runs one region in the same way.
    template <class AfterTiles>
    void run(const Stage &stage, AfterTiles &&after_tiles);

    // Sets where the threads of the next regions may run: processors by thread, beginning with the
    // caller's, and repeated; nullptr: anywhere. The caller itself is not moved.
    void place(std::shared_ptr<const Placement> placement);

    // Waits for threads that are still at a tile which was taken back from them. After that, no
    // thread looks at what regions work on.
    void settle();

    // What run() has noticed about other programs. Callers hold mutex().
    Crowding &crowding() { return crowding_; }
    // How many tiles were taken back so far.
    uint32_t n_taken_back() const { return n_taken_back_.load(std::memory_order_relaxed); }
    // How often a worker went on in the caller's place.
    uint32_t n_relieved() const { return n_relieved_.load(std::memory_order_relaxed); }

    // Callers of run() hold this: one sequence runs at a time.
    std::mutex &mutex() { return mutex_; }

private:
    using Clock = Crowding::Clock;

    // The tiles left to a thread, as one word: serial | n_threads | end | next. One word, so that a
    // worker that was late for one region can't mistake the next one's tiles for its own.
    struct alignas(64) Share {
        std::atomic<uint64_t> left{0};
        // How many tiles the thread has finished, its own or others'. A counter that all threads
        // shared would travel from core to core with every tile: with tiles of 32 KiB, a twentieth
        // of the time.
        std::atomic<uint32_t> finished{0};
        // The tile that the thread computes apart, see tile_word(); 0: none.
        std::atomic<uint64_t> apart{0};
        // The core on which the thread took up its last region; -1: it sleeps.
        std::atomic<int> cpu{-1};
        // Whether part() keeps the thread from a core. Guarded by pinning_.
        bool is_parted = false;
    };
    static constexpr uint64_t taken_back = ~uint64_t{0};
    // A tile and its region, so that a thread that was late takes back no tile of another region.
    static uint64_t tile_word(uint64_t serial, int tile) { return serial << 20 | (tile + 1); }
    static uint64_t pack(uint64_t serial, uint64_t threads, uint64_t end, uint64_t next) {
        return serial << 48 | threads << 40 | end << 20 | next;
    }
    static uint32_t next_of(uint64_t word) { return word & max_tiles; }
    static uint32_t end_of(uint64_t word) { return word >> 20 & max_tiles; }
    static int threads_of(uint64_t word) { return word >> 40 & 255; }
    static constexpr uint64_t one_from_end = uint64_t{1} << 20;

    void grow(int n_workers);
    // Lets a worker run where placement_ says. Callers hold pinning_.
    void pin(int thread);
    void work(int thread);
    // Takes and runs tiles, the thread's own next ones or another's last one. Returns how many; 0
    // where none is left.
    int take_some(int thread);
    int take_from(int owner, int thread);
    void run_apart(int tile, int thread);
    // Runs a tile of the region that another thread computes apart. Returns whether there was one.
    bool take_back(uint64_t serial, int thread);
    // Takes tiles until none is left. Returns the time of one tile if they are computed apart, else
    // 0.
    template <class AfterTiles>
    Clock::duration take_all(int thread, AfterTiles &&after_tiles);

    // Goes on to the next regions: at first the caller does, then the thread that claim()s the end
    // of a region. Does regions itself until one is published or the sequence ends.
    template <class AfterTiles>
    void go_on(int thread, AfterTiles &&after_tiles);
    // Publishes the region if it is for several threads, and returns whether it did.
    bool begin(const Stage &stage);
    void publish(Region &region, Cut cut, int n_threads);
    // `lost`: how long the thread waited for others, 0 unless it was long.
    void end_region(int thread, Clock::duration lost);
    void end_sequence();
    bool claim(uint64_t serial);

    void finish(int n_tiles, int thread);
    bool all_finished() const;
    // The caller waits for the end of the region. Returns whether it is the one that goes on.
    bool wait_for_rest(uint64_t serial, Clock::duration tile_time);
    // A worker goes on in the caller's place if that is interrupted. Returns whether there was
    // anything to do.
    bool relieve(uint64_t seen, uint64_t serial, int thread, Clock::duration tile_time);
    void call_the_caller();
    void sleep_until_published(uint64_t seen, int thread);
    // Keeps workers that started the region on the caller's core away from that core, until they
    // sleep or the caller is on another core. A scheduler leaves them there if another program has
    // a core to itself.
    void part(int n_threads);

    Share shares_[max_threads];
    alignas(64) std::atomic<uint64_t> published_{0};  // the last region, see pack()
    std::atomic<uint64_t> serial_{0};  // the last region's, stored after published_
    alignas(64) std::atomic<uint64_t> claimed_{1};  // the next region's, once a thread claims it
    std::atomic<bool> ended_{true};
    alignas(64) std::atomic<bool> caller_sleeps_{false};
    std::atomic<uint32_t> n_calls_{0};  // wake-up calls to the sleeping caller
    alignas(64) std::atomic<uint32_t> wake_{0};
    std::atomic<int> n_sleeping_{0};
    std::atomic<uint32_t> n_tiles_{0}, n_taken_back_{0}, n_relieved_{0};
    std::atomic<bool> joint_{false}, apart_{false};
    Region *region_ = nullptr;
    // Used by the thread that goes on.
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
    // Threads that change workers_ or placement_ hold both pinning_ and mutex().
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
