// The thread pool under the thread sanitizer: every tile of a region runs once, or is committed once,
// and what tiles write without further ado is there for the caller afterwards, and for the next
// region's tiles.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
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

    void tiles(int first, int last, int) override {
        for (int i = first; i < last; ++i) {
            ++runs[i];
            seen[i] += total;
        }
    }
    // Now and then longer than anybody waits for it.
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

void check(bool condition, const char *what) {
    if (condition) return;
    std::fprintf(stderr, "%s\n", what);
    std::exit(1);
}

// The way that does more in its time is kept, and left when it no longer does.
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
    // After 100, 200, 400 and 800 ms.
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
    for (int round = 0; round < n_rounds; ++round) {
        const int n_tiles = int(rng() % 40), n_threads = 1 + int(rng() % 6);
        const bool joint = rng() % 2, apart = rng() % 2;
        if (round == n_rounds / 2) pool.crowding().keep_apart();
        if (apart) pool.crowding().waited(Crowding::bearable, 6);
        Count &region = *regions.emplace_back(std::make_unique<Count>(n_tiles, round));
        int after = 0;
        pool.run(region, {n_tiles, joint, apart}, n_threads, [&](int n) { after += n; }, apart);
        for (int i = 0; i < n_tiles; ++i) {
            check(region.runs[i] == 1, "a tile didn't run once");
            check(region.seen[i] == round, "a tile saw another region's data");
        }
        check(after <= n_tiles, "more tiles than there are");
        // Now and then everybody falls asleep.
        if (rng() % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (rng() % 20 == 0) {
            pool.settle();
            regions.clear();
        }
    }
    pool.settle();
    check(pool.n_taken_back() > 0, "no tile was taken back");
    std::printf("%d regions, %u tiles taken back\n", n_rounds, pool.n_taken_back());
}
