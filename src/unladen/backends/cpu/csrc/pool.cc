#include "backends/cpu/csrc/pool.h"

#include <algorithm>
#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace unladen::cpu {
namespace {

// How long a thread spins before it sleeps: longer than the serial stretches between the regions of
// a step, shorter than what a neighbour on the same core would notice.
constexpr auto spin_time = std::chrono::microseconds(50);

void pause() {
#if defined(__x86_64__)
    _mm_pause();
#else
    std::this_thread::yield();
#endif
}

// Spins until done() or until spin_time has passed; says whether it is done.
template <class Done>
bool spin(Done done) {
    const auto end = std::chrono::steady_clock::now() + spin_time;
    do {
        for (int i = 0; i < 64; i++) {
            if (done()) return true;
            pause();
        }
    } while (std::chrono::steady_clock::now() < end);
    return done();
}

}  // namespace

Pool &Pool::instance() {
    static Pool *pool = new Pool;
    return *pool;
}

void Pool::grow(int n_workers) {
    for (n_workers = std::min(n_workers, max_threads - 1); n_workers_ < n_workers;) {
        int thread = ++n_workers_;
        std::thread([this, thread] { work(thread); }).detach();
    }
}

void Pool::publish(Region &region, int n_tiles, int n_threads) {
    n_threads = std::min({n_threads, max_threads, n_tiles});
    region_ = &region;
    finished_.store(0, std::memory_order_relaxed);
    ++serial_;
    for (int i = 0; i < n_threads; i++) {
        uint64_t first = uint64_t(n_tiles) * i / n_threads;
        uint64_t end = uint64_t(n_tiles) * (i + 1) / n_threads;
        shares_[i].left.store(pack(serial_ & 0xffff, n_threads, end, first));
    }
    published_.store(pack(serial_ & 0xffff, n_threads, 0, 0));
    if (n_sleeping_.load() > 0) {
        wake_.fetch_add(1);
        wake_.notify_all();
    }
}

bool Pool::take_one(int thread) {
    const int n_threads = threads_of(published_.load());
    if (thread >= n_threads) return false;
    for (int i = 0; i < n_threads; i++)
        if (take_from((thread + i) % n_threads, thread)) return true;
    return false;
}

bool Pool::take_from(int owner, int thread) {
    std::atomic<uint64_t> &left = shares_[owner].left;
    uint64_t word = left.load();
    while (next_of(word) < end_of(word) && thread < threads_of(word)) {
        const bool own = owner == thread;
        if (!left.compare_exchange_weak(word, own ? word + 1 : word - one_from_end)) continue;
        // This tile is unfinished, so the region can't end and region_ stays what it is.
        region_->tile(static_cast<int>(own ? next_of(word) : end_of(word) - 1), thread);
        finished_.fetch_add(1);
        return true;
    }
    return false;
}

void Pool::wait_for_rest(int n_tiles) {
    auto done = [&] { return finished_.load() == static_cast<uint32_t>(n_tiles); };
    while (!spin(done)) std::this_thread::yield();
}

void Pool::sleep_until_published(uint64_t seen) {
    n_sleeping_.fetch_add(1);
    uint32_t before = wake_.load();
    if (published_.load() == seen) wake_.wait(before);
    n_sleeping_.fetch_sub(1);
}

void Pool::work(int thread) {
    for (;;) {
        const uint64_t seen = published_.load();
        while (take_one(thread)) {
        }
        if (!spin([&] { return published_.load() != seen; })) sleep_until_published(seen);
    }
}

}  // namespace unladen::cpu
