// The thread pool under the thread sanitizer: every tile of a region runs once, and what tiles write
// without further ado is there for the caller afterwards, and for the next region's tiles.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "backends/cpu/csrc/pool.h"

using unladen::cpu::Pool;

namespace {

struct Count final : unladen::cpu::Region {
    std::vector<int> runs;
    std::vector<long> seen;
    long total = 0;
    void tile(int index, int thread) override {
        ++runs[index];
        seen[index] += total + thread * 0L;
    }
};

void check(bool condition, const char *what) {
    if (condition) return;
    std::fprintf(stderr, "%s\n", what);
    std::exit(1);
}

}  // namespace

int main(int argc, char **argv) {
    std::mt19937 rng(argc > 1 ? unsigned(std::atoi(argv[1])) : std::random_device{}());
    std::lock_guard lock(Pool::instance().mutex());
    Count region;
    for (int round = 0; round < 20000; ++round) {
        const int n_tiles = int(rng() % 40), n_threads = 1 + int(rng() % 6);
        region.runs.assign(n_tiles, 0);
        region.seen.assign(n_tiles, 0);
        region.total = round;
        int after = 0;
        Pool::instance().run(region, n_tiles, n_threads, [&] { ++after; });
        for (int i = 0; i < n_tiles; ++i) {
            check(region.runs[i] == 1, "a tile didn't run once");
            check(region.seen[i] == round, "a tile saw another region's data");
        }
        check(after <= n_tiles, "more tiles than there are");
        // Now and then everybody falls asleep.
        if (rng() % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::puts("20000 regions");
}
