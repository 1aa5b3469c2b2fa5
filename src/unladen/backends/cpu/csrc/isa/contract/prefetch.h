// How kernels prefetch weights. `reading` chooses the strategy for a microarchitecture; it affects
// speed, never results.
#pragma once

#include "backends/cpu/csrc/isa/activations/layout.h"

namespace unladen::cpu::UNLADEN_ISA {

// Prefetch distance in bytes. The hardware's own prefetching stops at the end of each page and
// leaves a quarter of the memory's speed unused. 4 and 8 KiB do equally well, 16 and more are 4 %
// slower.
constexpr size_t ahead_bytes = 8192;

// The distance for rows one after another: Zen 3 reads them up to 1.11 times as fast with twice it.
inline size_t rows_ahead_bytes() {
    return reading == Reading::zen3 ? 2 * ahead_bytes : ahead_bytes;
}

// Prefetches the cache line at p into L2. p may be an address without memory.
UNLADEN_INLINE void ask_line(const uint8_t *p) { __builtin_prefetch(p, 0, 2); }

// Whether weights for few columns are prefetched into L1. On Zen 5 one thread reads 1.04 to 1.13
// times as fast with it. On Zen 4 these prefetches fill L1's queue of lines, and a core reads half
// as fast.
inline bool asks_into_l1() { return reading == Reading::zen5; }

// Prefetches the n cache lines that begin at p.
UNLADEN_INLINE void ask_lines(const uint8_t *p, int n, bool into_l1) {
    if (into_l1) {
        for (int i = 0; i < n; ++i) __builtin_prefetch(p + 64 * i, 0, 3);
    } else {
        for (int i = 0; i < n; ++i) ask_line(p + 64 * i);
    }
}

// Whether rows one after another are read fastest without prefetching, for one column. Zen 4 then
// reads at the memory's speed, and a third slower with prefetching; Zen 3 reads F16 a fifth slower
// with it.
inline bool reads_alone() { return reading == Reading::zen3 || reading == Reading::zen4; }

// Whether lines are read fastest if a few at a time are prefetched into L2 and, at half the
// distance, into L1, as on Emerald Rapids.
inline bool reads_in_steps() { return reading == Reading::intel; }

// The strategy, looked up in `reading` at each block or compiled into the kernel as a constant.
// Looking it up at each block makes a row of Q4_0 9 % slower on Zen 3.
struct AsReading {
    static bool into_l1() { return asks_into_l1(); }
    static bool in_steps() { return reads_in_steps(); }
};
template <bool l1, bool steps>
struct AsKnown {
    static constexpr bool into_l1() { return l1; }
    static constexpr bool in_steps() { return steps; }
};

// Prefetches rows ahead of the row that is read: `far` is their distance in bytes.
template <class Where>
struct RowAhead : Where {
    ptrdiff_t near, far;

    RowAhead(ptrdiff_t near, ptrdiff_t far) : near(near), far(far) {}
    // Prefetches n bytes, while the n bytes at p are read.
    UNLADEN_INLINE void ask(const uint8_t *p, int n) const {
        ask_lines(p + far, (n + 63) / 64, Where::into_l1());
        if (Where::in_steps()) ask_lines(p + near, (n + 63) / 64, true);
    }
};

// A range of memory that is prefetched in pieces, `step` bytes at each of a number of regular
// moments. The hardware doesn't prefetch sixteen rows that are read in turns, and prefetching a
// whole tile at once delays everything else.
struct Ahead {
    const uint8_t *p;
    size_t step;  // bytes; 0: nothing

    // Inlined, because GCC drops calls of functions that only prefetch.
    UNLADEN_INLINE void ask() {
        for (size_t at = 0; at < step; at += 64) ask_line(p + at);
        p += step;
    }
};

// The same with a step known to the compiler, since a loop over its lines takes 5 % of the time of
// products.
template <size_t bytes>
struct AheadBy {
    const uint8_t *p;

    UNLADEN_INLINE void ask() {
#pragma GCC unroll 8
        for (size_t at = 0; at < bytes; at += 64) ask_line(p + at);
        p += bytes;
    }
};

// Prefetches n numbers.
template <class T>
UNLADEN_INLINE void ask_numbers(const T *p, int n) {
    Ahead{reinterpret_cast<const uint8_t *>(p), n * sizeof(T)}.ask();
}

// Whether a short loop reads one column's lines fastest. Few instructions then read all lines at
// even distances, and Zen 5 seems to predict what an instruction reads next. One thread reads at
// 0.96 to 1.00 of the speed of a loop that only loads; unrolled code reads at 0.87 to 0.96.
inline bool reads_rolled() { return asks_into_l1(); }

}  // namespace unladen::cpu::UNLADEN_ISA
