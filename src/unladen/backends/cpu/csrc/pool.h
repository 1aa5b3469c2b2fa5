// One persistent thread pool for the process: fork and join around the tiles of one operation.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace unladen::cpu {

// What a region runs: tile(index, thread) for every index once, on any thread.
class Region {
public:
    virtual ~Region() = default;
    virtual void tile(int index, int thread) = 0;
};

class Pool {
public:
    // The process's pool; never destroyed, so that threads may still sleep in it at exit.
    static Pool &instance();

    static constexpr int max_threads = 255;
    static constexpr int max_tiles = (1 << 20) - 1;

    // Runs every tile of `region` on the caller and at most n_threads - 1 workers, and returns when
    // all are done. Each thread has a run of neighbouring tiles of its own and takes them in order,
    // so that what the hardware reads ahead is read once; whoever has none left takes the last of
    // somebody else's. So nobody waits for a thread to wake. `after_tile` is called on the caller's
    // thread between its tiles.
    template <class AfterTile>
    void run(Region &region, int n_tiles, int n_threads, AfterTile &&after_tile);

    // Held by whoever calls run(): one region at a time.
    std::mutex &mutex() { return mutex_; }

private:
    // What is left of a thread's tiles in one word, so that a worker that was late for one region
    // can't mistake the next one's tiles: serial | n_threads | end | next.
    struct alignas(64) Share {
        std::atomic<uint64_t> left{0};
    };
    static uint64_t pack(uint64_t serial, uint64_t threads, uint64_t end, uint64_t next) {
        return serial << 48 | threads << 40 | end << 20 | next;
    }
    static uint32_t next_of(uint64_t word) { return word & max_tiles; }
    static uint32_t end_of(uint64_t word) { return word >> 20 & max_tiles; }
    static int threads_of(uint64_t word) { return word >> 40 & 255; }
    static constexpr uint64_t one_from_end = uint64_t{1} << 20;

    void grow(int n_workers);
    void work(int thread);
    // Takes and runs a tile, the thread's own next or somebody's last; false: none is left for it.
    bool take_one(int thread);
    bool take_from(int owner, int thread);
    void publish(Region &region, int n_tiles, int n_threads);
    void wait_for_rest(int n_tiles);
    void sleep_until_published(uint64_t seen);

    Share shares_[max_threads];
    alignas(64) std::atomic<uint64_t> published_{0};  // the last region, see pack()
    alignas(64) std::atomic<uint32_t> finished_{0};
    alignas(64) std::atomic<uint32_t> wake_{0};
    std::atomic<int> n_sleeping_{0};
    Region *region_ = nullptr;
    uint64_t serial_ = 0;
    int n_workers_ = 0;
    std::mutex mutex_;
};

template <class AfterTile>
void Pool::run(Region &region, int n_tiles, int n_threads, AfterTile &&after_tile) {
    if (n_tiles <= 0) return;
    if (n_threads <= 1 || n_tiles == 1) {
        for (int i = 0; i < n_tiles; i++) {
            region.tile(i, 0);
            after_tile();
        }
        return;
    }
    grow(n_threads - 1);
    publish(region, n_tiles, n_threads);
    while (take_one(0)) after_tile();
    wait_for_rest(n_tiles);
}

}  // namespace unladen::cpu
