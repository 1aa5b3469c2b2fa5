// Measures the machine's limits: bytes read from memory and 8-bit integer products per second.
//
//   g++ -O3 -march=native -std=c++20 -pthread roofline.cc -o roofline && ./roofline THREADS [turns]
//
// Prints {"read_bytes_s": .., "usual_read_bytes_s": .., "int8_macs_s": ..} for THREADS threads: the
// best of several passes; "usual" is their median. Reading uses the best of three loops over random
// numbers in 512 MiB, in huge pages if the system grants them. Multiplying uses the widest integer
// dot product of the processor, on registers only. With "turns" the program goes on: for each
// number n on standard input it reads n times and prints the bytes per second of all these reads.
#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr size_t n_bytes = size_t{512} << 20;
constexpr int n_runs = 9, n_steps = 1 << 22, n_chains = 12;

double seconds() {
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
}

using Work = std::function<void(int)>;

// Seconds from the first thread's start to the last one's end.
double time_once(int n_threads, const Work &work) {
    std::barrier ready(n_threads);
    std::vector<double> begin(n_threads), end(n_threads);
    std::vector<std::thread> threads;
    for (int i = 0; i < n_threads; i++)
        threads.emplace_back([&, i] {
            ready.arrive_and_wait();
            begin[i] = seconds();
            work(i);
            end[i] = seconds();
        });
    for (auto &thread : threads) thread.join();
    return *std::max_element(end.begin(), end.end()) -
           *std::min_element(begin.begin(), begin.end());
}

// The sorted times of several runs of each work, run in turns.
std::vector<std::vector<double>> time(int n_threads, const std::vector<Work> &works) {
    std::vector<std::vector<double>> times(works.size());
    for (int run = 0; run < n_runs; run++)
        for (size_t i = 0; i < works.size(); i++)
            times[i].push_back(time_once(n_threads, works[i]));
    for (auto &each : times) std::sort(each.begin(), each.end());
    return times;
}

#if defined(__AVX512F__)
using Vec = __m512i;
Vec load(const uint8_t *p) { return _mm512_loadu_si512(p); }
Vec mix(Vec a, Vec b) { return _mm512_xor_si512(a, b); }
#else
using Vec = __m256i;
Vec load(const uint8_t *p) { return _mm256_loadu_si256(reinterpret_cast<const Vec *>(p)); }
Vec mix(Vec a, Vec b) { return _mm256_xor_si256(a, b); }
#endif

#if defined(__AVX512VNNI__)
Vec multiply(Vec sum, Vec a, Vec b) { return _mm512_dpbusd_epi32(sum, a, b); }
#elif defined(__AVX512BW__)
Vec multiply(Vec sum, Vec a, Vec b) {
    auto pairs = _mm512_maddubs_epi16(a, b);
    return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
#else
Vec multiply(Vec sum, Vec a, Vec b) {
    auto pairs = _mm256_maddubs_epi16(a, b);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
#endif

volatile uint8_t sink;

void keep(Vec value) {
    alignas(64) uint8_t bytes[sizeof(Vec)];
    __builtin_memcpy(bytes, &value, sizeof(Vec));
    sink = bytes[0];
}

// Reads memory. It prefetches the line `ahead` bytes further on into the cache of level `level`; 0
// leaves prefetching to the hardware.
template <int ahead, int level = 1>
void read(const uint8_t *begin, const uint8_t *end) {
    Vec sums[8]{};
    for (auto *p = begin; p < end; p += 8 * sizeof(Vec))
        for (int i = 0; i < 8; i++) {
            if (ahead) __builtin_prefetch(p + i * sizeof(Vec) + ahead, 0, 4 - level);
            sums[i] = mix(sums[i], load(p + i * sizeof(Vec)));
        }
    for (int i = 1; i < 8; i++) sums[0] = mix(sums[0], sums[i]);
    keep(sums[0]);
}

// Returns `a`, but hides its value from the compiler.
Vec hidden(Vec a) {
    asm volatile("" : "+v"(a));
    return a;
}

// Constant indices keep the sums in registers.
template <size_t... chain>
Vec multiply_many(Vec a, std::index_sequence<chain...>) {
    Vec sums[sizeof...(chain)];
    ((sums[chain] = hidden(a)), ...);
    // The loop is unrolled because compilers copy all sums once per iteration.
#pragma GCC unroll 16
    for (int step = 0; step < n_steps; step++) {
        a = hidden(a);
        ((sums[chain] = multiply(sums[chain], a, a)), ...);
    }
    Vec all{};
    ((all = mix(all, sums[chain])), ...);
    return all;
}

void multiply_long(int seed) {
    alignas(64) uint8_t bytes[sizeof(Vec)];
    for (auto &byte : bytes) byte = static_cast<uint8_t>(seed++);
    keep(multiply_many(load(bytes), std::make_index_sequence<n_chains>()));
}

}  // namespace

int main(int argc, char **argv) {
    int n_threads = argc > 1 ? std::atoi(argv[1]) : 1;
    if (n_threads < 1) return std::fprintf(stderr, "usage: roofline THREADS\n"), 2;
    void *map = mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return std::perror("mmap"), 1;
    madvise(map, n_bytes, MADV_HUGEPAGE);
    auto *words = static_cast<uint64_t *>(map);
    uint64_t random = 88172645463325252u;
    for (size_t i = 0; i < n_bytes / 8; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        words[i] = random;
    }
    auto *bytes = static_cast<const uint8_t *>(map);
    size_t share = n_bytes / n_threads / (8 * sizeof(Vec)) * (8 * sizeof(Vec));
    const auto of_thread = [&](auto read_some) -> Work {
        return [=](int i) { read_some(bytes + i * share, bytes + (i + 1) * share); };
    };
    const std::vector<Work> loops = {of_thread(read<0>), of_thread(read<8192>),
                                     of_thread(read<4096, 2>)};
    const auto times = time(n_threads, loops);
    double best = times[0][0];
    size_t usual = 0;
    for (size_t i = 0; i < loops.size(); i++) {
        best = std::min(best, times[i][0]);
        if (times[i][n_runs / 2] < times[usual][n_runs / 2]) usual = i;
    }
    const double n_read = double(share) * n_threads;
    const double macs = double{n_steps} * n_chains * sizeof(Vec) * n_threads;
    std::printf("{\"read_bytes_s\": %.4g, \"usual_read_bytes_s\": %.4g, \"int8_macs_s\": %.4g}\n",
                n_read / best, n_read / times[usual][n_runs / 2],
                macs / time(n_threads, {multiply_long})[0][0]);
    const bool turns = argc > 2 && std::strcmp(argv[2], "turns") == 0;
    for (int n = 0; std::fflush(stdout), turns && std::scanf("%d", &n) == 1 && n > 0;) {
        double taken = 0;
        for (int i = 0; i < n; i++) taken += time_once(n_threads, loops[usual]);
        std::printf("%.4g\n", n * n_read / taken);
    }
}
