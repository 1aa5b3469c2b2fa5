#include "backends/cpu/csrc/pool.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif
#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace unladen::cpu {
namespace {

// How long the caller spins before it sleeps: longer than the serial stretches between regions of a
// step, and so short that another thread on the same core hardly notices.
constexpr auto spin_time = std::chrono::microseconds(50);
// How long a worker spins for the next step, which begins after 70 to 150 us. Waking it would take
// both threads 30 us.
constexpr auto spin_time_between_steps = std::chrono::microseconds(300);
// The least age at which a tile is taken back, since its thread may still be working. It must also
// be twice the time that other tiles took.
constexpr std::chrono::nanoseconds least_patience = std::chrono::microseconds(25);

std::chrono::nanoseconds patience(std::chrono::nanoseconds tile_time) {
    return std::max(least_patience, 2 * tile_time);
}

// The least time until workers are moved from the caller's core again, since the scheduler needs
// time to react.
constexpr std::chrono::milliseconds parted_again{2};

void pause() {
#if defined(__x86_64__)
    _mm_pause();
#else
    std::this_thread::yield();
#endif
}

// Spins until done() or until `time` has passed. Returns whether it is done.
template <class Done>
bool spin(std::chrono::nanoseconds time, Done done) {
    const auto end = std::chrono::steady_clock::now() + time;
    do {
        for (int i = 0; i < 64; i++) {
            if (done()) return true;
            pause();
        }
    } while (std::chrono::steady_clock::now() < end);
    return done();
}

#if defined(__linux__)
std::vector<int> members(const cpu_set_t &set) {
    std::vector<int> cpus;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set)) cpus.push_back(i);
    return cpus;
}

cpu_set_t set_of(const std::vector<int> &cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu : cpus)
        if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
    return set;
}

// Asks the scheduler (Linux 6.12 and later) to run this thread for a little more than a burst at a
// time, and sooner in return. Then it isn't interrupted within a burst, and doesn't wait for the
// end of another thread's longer slice.
void take_short_slices() {
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attributes{};
    constexpr unsigned size = sizeof attributes;
    if (syscall(SYS_sched_getattr, 0, &attributes, size, 0) != 0) return;
    if (attributes.policy != SCHED_OTHER) return;
    attributes.size = size;
    attributes.runtime = std::chrono::nanoseconds(Crowding::burst * 6 / 5).count();
    syscall(SYS_sched_setattr, 0, &attributes, 0);  // if refused, slices stay as they are
}
#else
void take_short_slices() {}
#endif

std::atomic<Pool *> current{nullptr};

#if defined(__unix__) || defined(__APPLE__)
// A forked child has a copy of the parent's pool, whose workers don't exist there and whose locks
// may be held for ever. The child forgets that copy and makes a pool of its own.
[[maybe_unused]] const int forgets_in_children =
    pthread_atfork(nullptr, nullptr, [] { current.store(nullptr); });
#endif

}  // namespace

void Region::compute(int, int) { std::abort(); }
void Region::commit(int, int) { std::abort(); }

#if defined(__linux__)
int current_cpu() { return sched_getcpu(); }

Placed::Placed(const Placement *placement) {
    cpu_set_t now;
    if (!placement || pthread_getaffinity_np(pthread_self(), sizeof now, &now) != 0) return;
    before_ = members(now);
    const cpu_set_t set = set_of(placement->front());
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

Placed::~Placed() {
    if (before_.empty()) return;
    const cpu_set_t set = set_of(before_);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

void Pool::pin(int thread) {
    shares_[thread].is_parted = false;
    cpu_set_t set;
    // Without a placement the thread may run on all processors of the process.
    if (placement_) {
        set = set_of((*placement_)[thread % placement_->size()]);
    } else if (sched_getaffinity(getpid(), sizeof set, &set) != 0) {
        return;
    }
    pthread_setaffinity_np(workers_[thread - 1], sizeof set, &set);
}

void Pool::part(int n_threads) {
    const int cpu = sched_getcpu();
    auto is_here = [&](int thread) {
        return shares_[thread].cpu.load(std::memory_order_relaxed) == cpu;
    };
    int first = 1;
    while (first < n_threads && !is_here(first)) first++;
    if (first == n_threads || placement_) return;
    const auto now = Crowding::Clock::now();
    if (now - parted_ < parted_again) return;
    parted_ = now;
    cpu_set_t others;
    if (sched_getaffinity(getpid(), sizeof others, &others) != 0) return;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) == 0) return;
    const std::unique_lock lock(pinning_, std::try_to_lock);
    for (int i = first; lock && i < n_threads; i++) {
        if (!is_here(i)) continue;
        pthread_setaffinity_np(workers_[i - 1], sizeof others, &others);
        shares_[i].is_parted = true;
    }
}
#else
void Pool::part(int) {}
int current_cpu() { return 0; }
Placed::Placed(const Placement *) {}
Placed::~Placed() {}
void Pool::pin(int) {}
#endif

Pool &Pool::instance() {
    Pool *pool = current.load();
    if (pool) return *pool;
    auto fresh = std::make_unique<Pool>();
    if (!current.compare_exchange_strong(pool, fresh.get())) return *pool;
    return *fresh.release();
}

void Pool::grow(int n_workers) {
    while (static_cast<int>(workers_.size()) < std::min(n_workers, max_threads - 1)) {
        const int thread = static_cast<int>(workers_.size()) + 1;
        std::thread worker([this, thread] {
            take_short_slices();
            work(thread);
        });
        const std::lock_guard lock(pinning_);
        workers_.push_back(worker.native_handle());
        worker.detach();
        if (placement_) pin(thread);
    }
}

void Pool::place(std::shared_ptr<const Placement> placement) {
    if (placement == placement_) return;
    const std::lock_guard lock(pinning_);
    placement_ = std::move(placement);
    for (size_t i = 1; i <= workers_.size(); i++) pin(static_cast<int>(i));
}

bool Pool::begin(const Stage &stage) {
    Cut cut = stage.cut;
    int n_threads = stage.n_threads;
    const bool may_be_crowded = stage.yields && n_threads > 1;
    const int most = may_be_crowded ? crowding_.limit(n_threads) : n_threads;
    const bool chooses = cut.apart && may_be_crowded && crowding_.is_crowded();
    cut.apart = chooses && crowding_.apart_is_faster();
    if (!cut.apart) n_threads = chooses ? crowding_.fewer(n_threads) : most;
    stage_ = {n_threads, stage.yields, chooses, cut.cost,
              chooses ? Clock::now() : Clock::time_point{}};
    if (n_threads <= 1 || cut.n_tiles <= 1) return false;
    grow(n_threads - 1);
    publish(*stage.region, cut, n_threads);
    return true;
}

void Pool::end_region(int thread, Clock::duration lost) {
    if (stage_.yields && lost.count() > 0) crowding_.waited(lost, stage_.n_threads);
    if (thread == 0) part(stage_.n_threads);
    if (stage_.chooses) crowding_.did(stage_.cost, Clock::now() - stage_.start);
}

void Pool::end_sequence() {
    ended_.store(true);
    call_the_caller();
}

// A region ends with its last tile. A thread may have looked at the counters of a later region;
// then another thread has claimed this region's end, and the exchange fails.
bool Pool::claim(uint64_t serial) { return claimed_.compare_exchange_strong(serial, serial + 1); }

void Pool::publish(Region &region, Cut cut, int n_threads) {
    n_threads = std::min({n_threads, max_threads, cut.n_tiles});
    region_ = &region;
    joint_.store(cut.joint, std::memory_order_relaxed);
    apart_.store(cut.apart, std::memory_order_relaxed);
    n_tiles_.store(cut.n_tiles, std::memory_order_relaxed);
    const uint64_t serial = claimed_.load(std::memory_order_relaxed);
    for (int i = 0; i < n_threads; i++)  // before any has a tile
        shares_[i].finished.store(0, std::memory_order_relaxed);
    for (int i = 0; i < n_threads; i++) {
        uint64_t first = uint64_t(cut.n_tiles) * i / n_threads;
        uint64_t end = uint64_t(cut.n_tiles) * (i + 1) / n_threads;
        shares_[i].left.store(pack(serial & 0xffff, n_threads, end, first),
                              std::memory_order_release);
    }
    published_.store(pack(serial & 0xffff, n_threads, 0, 0));
    serial_.store(serial);
    if (n_sleeping_.load() > 0) {
        wake_.fetch_add(1);
        wake_.notify_all();
    }
    call_the_caller();
}

int Pool::take_some(int thread) {
    const int n_threads = threads_of(published_.load());
    if (thread >= n_threads) return 0;
    for (int i = 0; i < n_threads; i++)
        if (const int n = take_from((thread + i) % n_threads, thread)) return n;
    return 0;
}

int Pool::take_from(int owner, int thread) {
    std::atomic<uint64_t> &left = shares_[owner].left;
    uint64_t word = left.load();
    while (next_of(word) < end_of(word) && thread < threads_of(word)) {
        const bool own = owner == thread;
        const int n_left = static_cast<int>(end_of(word) - next_of(word));
        // These may be stale; then the exchange below fails.
        const bool apart = apart_.load(std::memory_order_relaxed);
        const bool joint = own && !apart && joint_.load(std::memory_order_relaxed);
        const int n = joint ? (n_left + 1) / 2 : 1;
        if (!left.compare_exchange_weak(word, own ? word + n : word - one_from_end)) continue;
        // The region can't end before these tiles are done, so region_ stays what it is.
        const int first = static_cast<int>(own ? next_of(word) : end_of(word) - 1);
        if (apart) {
            run_apart(first, thread);
        } else {
            region_->tiles(first, first + n, thread);
            finish(n, thread);
        }
        return n;
    }
    return 0;
}

void Pool::run_apart(int tile, int thread) {
    Region *region = region_;
    std::atomic<uint64_t> &apart = shares_[thread].apart;
    uint64_t word = tile_word(claimed_.load(), tile);
    apart.store(word);  // from here on the tile may be taken back, and the region may end
    region->compute(tile, thread);
    if (apart.compare_exchange_strong(word, 0)) {
        region->commit(tile, thread);
        finish(1, thread);
    } else {
        apart.store(0);
        apart.notify_one();
    }
}

bool Pool::take_back(uint64_t serial, int thread) {
    const int n_threads = threads_of(published_.load());
    for (int i = 0; i < n_threads; i++) {
        uint64_t word = shares_[i].apart.load();
        // A worker that was made for the first region may still show serial 0, that of no tile.
        if (i == thread || word == 0 || word == taken_back || word >> 20 != serial) continue;
        if (!shares_[i].apart.compare_exchange_strong(word, taken_back)) continue;
        n_taken_back_.fetch_add(1, std::memory_order_relaxed);
        // Computed as a whole tile. If it were computed apart, two threads could take it from each
        // other again and again.
        const int tile = static_cast<int>(word & max_tiles);
        region_->tiles(tile - 1, tile, thread);
        finish(1, thread);
        return true;
    }
    return false;
}

void Pool::settle() {
    for (size_t i = 1; i <= workers_.size(); i++) {
        if (shares_[i].apart.load() != taken_back) continue;
        const auto start = Crowding::Clock::now();
        shares_[i].apart.wait(taken_back);
        crowding_.did(0, Crowding::Clock::now() - start);
    }
}

void Pool::finish(int n_tiles, int thread) {
    std::atomic<uint32_t> &finished = shares_[thread].finished;
    finished.store(finished.load(std::memory_order_relaxed) + n_tiles);
    // If several threads look at the same time, the last one to store sees all tiles finished.
    if (caller_sleeps_.load() && all_finished()) call_the_caller();
}

void Pool::call_the_caller() {
    if (!caller_sleeps_.load()) return;
    n_calls_.fetch_add(1);
    n_calls_.notify_one();
}

bool Pool::all_finished() const {
    const int n_threads = threads_of(published_.load());
    uint32_t n = 0;
    for (int i = 0; i < n_threads; i++) n += shares_[i].finished.load();
    return n == n_tiles_.load(std::memory_order_relaxed);
}

bool Pool::wait_for_rest(uint64_t serial, Clock::duration tile_time) {
    const auto done = [&] {
        return ended_.load() || serial_.load() != serial ||
               (all_finished() && claimed_.load() == serial);
    };
    Clock::duration lost{};
    while (tile_time.count() > 0 && !spin(patience(tile_time), done) && take_back(serial, 0))
        lost = Crowding::bearable;
    if (!spin(spin_time, done)) {
        // Another program may be on the core of a thread that has a tile. The caller sleeps, so
        // that its own core is free for them.
        const auto start = Clock::now();
        caller_sleeps_.store(true);
        for (uint32_t n = n_calls_.load(); !done(); n = n_calls_.load()) n_calls_.wait(n);
        caller_sleeps_.store(false);
        lost = Clock::now() - start;
    }
    if (!all_finished() || !claim(serial)) return false;
    end_region(0, lost);
    return true;
}

bool Pool::relieve(uint64_t seen, uint64_t serial, int thread, Clock::duration tile_time) {
    const auto done = [&] { return published_.load() != seen; };
    do {
        if (spin(patience(tile_time), done)) return true;
    } while (take_back(serial, thread));
    if (!all_finished() || !claim(serial)) return false;
    n_relieved_.fetch_add(1, std::memory_order_relaxed);
    end_region(thread, Crowding::bearable);
    go_on(thread, [](int) {});
    return true;
}

void Pool::sleep_until_published(uint64_t seen, int thread) {
    {
        const std::lock_guard lock(pinning_);
        shares_[thread].cpu.store(-1, std::memory_order_relaxed);
        if (shares_[thread].is_parted) pin(thread);
    }
    n_sleeping_.fetch_add(1);
    uint32_t before = wake_.load();
    if (published_.load() == seen) wake_.wait(before);
    n_sleeping_.fetch_sub(1);
}

void Pool::work(int thread) {
    for (;;) {
        const uint64_t seen = published_.load(), serial = serial_.load();
        shares_[thread].cpu.store(current_cpu(), std::memory_order_relaxed);
        const Clock::duration tile_time = take_all(thread, [](int) {});
        const bool takes_part = tile_time.count() > 0 && thread < threads_of(seen);
        if (takes_part && relieve(seen, serial, thread, tile_time)) continue;
        if (!spin(spin_time_between_steps, [&] { return published_.load() != seen; }))
            sleep_until_published(seen, thread);
    }
}

}  // namespace unladen::cpu
