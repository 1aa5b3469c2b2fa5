// Runs the thread pool under the thread sanitizer. Every tile of a region runs once, or is committed
// once, after all tiles of the region before, on whichever thread. What tiles write without locks is
// visible to the caller afterwards and to the next region's tiles.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "backends/cpu/csrc/pool.h"

using unladen::cpu::Crowding;
using unladen::cpu::Pool;

namespace {

struct Count final : unladen::cpu::Region {
    Count(int n_tiles, long total) : runs(n_tiles), seen(n_tiles), total(total) {}
    std::vector<int> runs;
    std::vector<long> seen;
    const long total;
    long computed[8] = {};

    // Whether each of the region's tiles ran once, on its own data.
    bool is_done() const {
        for (size_t i = 0; i < runs.size(); ++i)
            if (runs[i] != 1 || seen[i] != total) return false;
        return true;
    }
    void tiles(int first, int last, int) override {
        for (int i = first; i < last; ++i) {
            ++runs[i];
            seen[i] += total;
        }
    }
    // Some tiles take longer than any thread waits for them.
    void compute(int tile, int thread) override {
        computed[thread] = total + tile;
        if ((total + tile) % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    void commit(int tile, int thread) override {
        ++runs[tile];
        seen[tile] += computed[thread] - tile;
    }
};

constexpr int n_rounds = 20000;

// A sequence of regions, each given out when the one before is done; the last one may fail.
struct Regions final : unladen::cpu::Sequence {
    std::vector<unladen::cpu::Stage> stages;
    bool fails = false, in_order = true;
    size_t at = 0;

    unladen::cpu::Stage next() override {
        if (at > 0) in_order &= static_cast<Count *>(stages[at - 1].region)->is_done();
        if (at < stages.size()) return stages[at++];
        if (fails) throw std::runtime_error("no more");
        return {};
    }
};

void check(bool condition, const char *what) {
    if (condition) return;
    std::fprintf(stderr, "%s\n", what);
    std::exit(1);
}

// The way of working that does more in the same time is kept, and left when that changes.
void check_ways() {
    Crowding crowding;
    const std::chrono::milliseconds time{25};
    const bool first = crowding.apart_is_faster();
    crowding.did(1, time);
    check(crowding.apart_is_faster() != first, "the other way wasn't tried");
    crowding.did(3, time);
    check(crowding.apart_is_faster() != first, "the faster way was left");
    for (int i = 0; i < 3; ++i) crowding.did(0.5, time);
    check(crowding.apart_is_faster() == first, "the slower way was kept");

    int n_trials = 0;
    const auto end = Crowding::Clock::now() + std::chrono::milliseconds(1200);
    while (Crowding::Clock::now() < end) {
        const bool tries = crowding.apart_is_faster() != first;
        n_trials += tries;
        crowding.did(tries ? 0.5 : 1, time);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    // The trials are after 100, 200, 400 and 800 ms.
    check(n_trials >= 1, "the slower way wasn't tried again");
    check(n_trials <= 5, "the slower way was tried too often");
}

}  // namespace

int main(int argc, char **argv) {
    std::mt19937 rng(argc > 1 ? unsigned(std::atoi(argv[1])) : std::random_device{}());
    check_ways();
    Pool &pool = Pool::instance();
    std::lock_guard lock(pool.mutex());
    // Threads may look at regions until the pool has settled.
    std::vector<std::unique_ptr<Count>> regions;
    for (int round = 0; round < n_rounds;) {
        Regions sequence;
        sequence.fails = rng() % 8 == 0;
        const size_t first = regions.size();
        int n_all = 0;
        for (int n = 1 + int(rng() % 8); n > 0 && round < n_rounds; --n, ++round) {
            const int n_tiles = int(rng() % 40), n_threads = 1 + int(rng() % 6);
            const bool joint = rng() % 2, apart = rng() % 2;
            if (round == n_rounds / 2) pool.crowding().keep_apart();
            if (apart) pool.crowding().waited(Crowding::bearable, 6);
            regions.push_back(std::make_unique<Count>(n_tiles, round));
            sequence.stages.push_back(
                {regions.back().get(), {n_tiles, joint, apart}, n_threads, apart});
            n_all += n_tiles;
        }
        int after = 0;
        bool failed = false;
        try {
            pool.run(sequence, [&](int n) { after += n; });
        } catch (const std::runtime_error &) {
            failed = true;
        }
        check(failed == sequence.fails, "a failure was lost");
        check(sequence.in_order, "a region began before the one before had ended");
        for (size_t i = first; i < regions.size(); ++i)
            check(regions[i]->is_done(), "a tile didn't run once, on its own region's data");
        check(after <= n_all, "more tiles than there are");
        // Sometimes all workers fall asleep.
        if (rng() % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (rng() % 20 == 0) {
            pool.settle();
            regions.clear();
        }
    }
    pool.settle();
    check(pool.n_taken_back() > 0, "no tile was taken back");
    check(pool.n_relieved() > 0, "no worker went on in the caller's place");
    std::printf("%d regions, %u tiles taken back, %u times a worker went on\n", n_rounds,
                pool.n_taken_back(), pool.n_relieved());
}
