// Products of sixteen weight rows with one to eight columns: codes are decoded in registers and
// multiplied there.
#pragma once

#include "backends/cpu/csrc/isa/products/interleave512.h"

namespace unladen::cpu::UNLADEN_ISA {

// sum += products of four codes of each row with the four activations at q. Written in assembly,
// because GCC 12 makes two instructions of the intrinsic.
UNLADEN_INLINE void add_products(__m512i &sum, __m512i line, const int8_t *q) {
#ifdef UNLADEN_EMULATED
    sum = _mm512_dpbusd_epi32(sum, line, broadcast4(q));
#else
    __asm__("vpdpbusd %2%{1to16%}, %1, %0"
            : "+v"(sum)
            : "v"(line), "m"(*reinterpret_cast<const int8_t(*)[4]>(q)));
#endif
}

// Adds lines first ... first + n_lines - 1 of a block times n columns. q points at the activations
// of the first line.
template <class T, int n_lines, int n, int columns>
UNLADEN_INLINE void products(__m512i (&sum)[n], Block<T> w, int first, const int8_t *q) {
#pragma GCC unroll 8
    for (int i = 0; i < n_lines; ++i) {
        const __m512i line = InLanes<T>::line(w, first + i);
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) {
            add_products(sum[j], line, q + 4 * (columns * i + j));
        }
    }
}

template <class T>
constexpr size_t block_bytes = tile_rows * T::block_bytes;

// How blocks are prefetched. `never`; `at_once`: a block at a time, which makes one column 3 to 15
// % faster on Zen 5; `in_shares`: a few lines between products, since products would wait for the
// prefetches of a whole block; `in_steps`: in shares, and a second time at half the distance. On
// Emerald Rapids this reads one column of Q4_K at 0.96 of the memory's speed instead of 0.79, and
// eight of Q8_0 at 0.83 instead of 0.61.
enum class Asking { never, at_once, in_shares, in_steps };

template <int n>
Asking asking(const Job &job) {
    if (job.interleaved && reads_in_steps()) return Asking::in_steps;
    if (n > 1) return Asking::in_shares;
    return job.interleaved && reads_alone() ? Asking::never : Asking::at_once;
}

// How far ahead one column's lines are prefetched, and whether into L1: as InLanes<T> says,
// otherwise as here. Shortened blocks follow the blocks that they are made of, T::Each.
template <class T>
struct RolledAhead {
    static constexpr size_t bytes = ahead_bytes;
    static constexpr bool into_l1 = true;
};
template <class T>
    requires requires { InLanes<T>::rolled_ahead; }
struct RolledAhead<T> {
    static constexpr size_t bytes = InLanes<T>::rolled_ahead;
    static constexpr bool into_l1 = !requires { InLanes<T>::rolled_into_l1; };
};
template <class T>
    requires requires { typename T::Each; }
struct RolledAhead<T> : RolledAhead<typename T::Each> {};

// Prefetches n lines, at this distance ahead of p.
template <class T>
UNLADEN_INLINE void ask_rolled(const uint8_t *p, int n) {
    ask_lines(p + RolledAhead<T>::bytes, n, RolledAhead<T>::into_l1);
}

// After how many lines of A's codes their layout repeats, and how many bytes these take; or a
// multiple of both.
template <class A>
struct Repeat {
    static constexpr int lines = A::rolled_lines, bytes = A::rolled_bytes;
};
template <class A>
    requires requires { A::n_planes; }
struct Repeat<A> {
    static constexpr int lines = 8, bytes = 64 * A::n_planes * lines / A::n_lines;
};

// Prefetches the rest that belongs to the coarse blocks n blocks after `w`.
template <class T>
UNLADEN_INLINE void ask_rest([[maybe_unused]] Block<T> w, [[maybe_unused]] int n,
                             [[maybe_unused]] bool into_l1) {
    if constexpr (requires { T::rest_bytes; }) {
        const size_t ahead = ahead_bytes * T::rest_bytes / T::block_bytes;
        ask_lines(w.rest + ahead, (n * tile_rows * T::rest_bytes + 63) / 64, into_l1);
    } else if constexpr (requires { w.ask_rest(into_l1); }) {
        w.ask_rest(into_l1);
    }
}

// Addresses to prefetch: the kernel reads `far` one prefetch distance later, `near` half of that
// later.
struct PrefetchTarget {
    const uint8_t *near, *far;
    Asking how;
    bool into_l1;

    // Prefetches share i of n_shares of the next n_bytes.
    template <int n_bytes>
    UNLADEN_INLINE void ask_share(int i, int n_shares) const {
        if (how < Asking::in_shares) return;
        constexpr int n_lines = (n_bytes + 63) / 64;
        const int first = n_lines * i / n_shares, last = n_lines * (i + 1) / n_shares;
        if (how == Asking::in_steps) ask_lines(near + 64 * first, last - first, true);
        ask_lines(far + 64 * first, last - first, into_l1);
    }
    template <int n_bytes>
    UNLADEN_INLINE void ask_at_once() const {
        if (how == Asking::at_once) ask_lines(far, (n_bytes + 63) / 64, into_l1);
    }
};

// Functions that are called between products. They aren't lambdas, because GCC 12 removes lambdas
// that only prefetch.
struct AskNothing {
    UNLADEN_INLINE void operator()() const {}
};
template <int n_bytes>
struct AskShare {
    const PrefetchTarget &target;
    int i, n_shares;
    UNLADEN_INLINE void operator()() const { target.ask_share<n_bytes>(i, n_shares); }
};

// Products of blocks of 256 with columns of a panel of `columns` columns.
template <class T, int columns>
struct Columns256 {
    using Panel = Panel256Of<columns>;
    using A = InLanes<T>;
    static constexpr int sub = A::sub;

    // Adds the block at k to the sums of n columns.
    template <int n>
    static UNLADEN_INLINE void add(__m512 (&c)[n], Block<T> w, const Panel &x, int k,
                                   PrefetchTarget target) {
        if constexpr (n == 1) target.ask_at_once<block_bytes<T>>();
        Scales256 scales;
        A::scales(scales, w);
        const int8_t *q = x.q + size_t(k) * columns;
        const int32_t *times32 = x.times32 + size_t(k) / 16 * columns;
        __m512 sum[n];
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) sum[j] = _mm512_setzero_ps();
#pragma GCC unroll 16
        for (int s = 0; s < 256 / sub; ++s) {
            target.ask_share<block_bytes<T>>(s, 256 / sub);
            // Otherwise the compiler keeps scales in registers that many sums need.
            __asm__ volatile("" ::"r"(n > 4 ? &scales : nullptr) : "memory");
            add_sub(sum, w, s, scales.scale[s], q, times32);
        }
        add_rest(c, sum, scales, x, k);
    }

    static constexpr int rolled_k = 256;

    // The same for one column.
    static UNLADEN_INLINE void add_rolled(__m512 (&c)[1], Block<T> w, const Panel &x, int k) {
        using Turn = Repeat<A>;
        constexpr int n_subs = 4 * Turn::lines / sub;
        constexpr int turn_bytes = block_bytes<T> * Turn::lines / 64;
        Scales256 scales;
        A::scales(scales, w);
        const int8_t *q = x.q + k;
        const int32_t *times32 = x.times32 + k / 16;
        const uint8_t *next = w.p;
        __m512 sum[1] = {_mm512_setzero_ps()};
#pragma GCC unroll 1
        for (int first = 0; first < 256 / sub; first += n_subs) {
            ask_rolled<T>(next, (turn_bytes + 63) / 64);
#pragma GCC unroll 8
            for (int s = 0; s < n_subs; ++s) {
                add_sub(sum, w, s, scales.scale[first + s], q, times32);
            }
            skip_codes<T>(w, Turn::bytes);
            next += turn_bytes, q += 4 * Turn::lines, times32 += n_subs;
        }
        add_rest(c, sum, scales, x, k);
    }

private:
    // Adds sub-block s. q points at the activations of the first sub-block.
    template <int n>
    static UNLADEN_INLINE void add_sub(__m512 (&sum)[n], Block<T> w, int s, const float *scales,
                                       const int8_t *q, const int32_t *times32) {
        __m512i product[n];
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) {
            product[j] = first_products256<A>(times32 + s * columns + j, s);
        }
        products<T, sub / 4, n, columns>(product, w, sub / 4 * s, q + sub * columns * s);
        const __m512 scale = _mm512_load_ps(scales);
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) {
            sum[j] = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(product[j]), sum[j]);
        }
    }

    // Adds the block's sums and its minimums.
    template <int n>
    static UNLADEN_INLINE void add_rest(__m512 (&c)[n], __m512 (&sum)[n], const Scales256 &scales,
                                        const Panel &x, int k) {
        if constexpr (!sums_bias<A>) add_mins(sum, scales, x, k);
        const float *d = x.d + k / 256 * columns;
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) c[j] = _mm512_fmadd_ps(sum[j], _mm512_set1_ps(d[j]), c[j]);
    }

    template <int n>
    static UNLADEN_INLINE void add_mins(__m512 (&sum)[n], const Scales256 &scales, const Panel &x,
                                        int k) {
        const int16_t *minus = (sub == 16 ? x.minus16 : x.minus32) + size_t(k) / sub * columns;
        __m512i mins[n];
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) mins[j] = _mm512_setzero_si512();
#pragma GCC unroll 8
        for (int p = 0; p < 128 / sub; ++p) {
            const __m512i min = _mm512_load_si512(scales.min[p]);
#pragma GCC unroll 8
            for (int j = 0; j < n; ++j) {
                mins[j] =
                    _mm512_dpwssd_epi32(mins[j], min, broadcast4(minus + 2 * (columns * p + j)));
            }
        }
        const __m512 dmin = _mm512_load_ps(scales.dmin);
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) {
            sum[j] = _mm512_fmadd_ps(dmin, _mm512_cvtepi32_ps(mins[j]), sum[j]);
        }
    }
};

// The same for blocks of 32, 64 or 128.
template <class T, int columns>
struct Columns32 {
    using Panel = Panel32Of<columns>;

    template <int n>
    static UNLADEN_INLINE void add(__m512 (&c)[n], Block<T> w, const Panel &x, int k,
                                   PrefetchTarget target) {
        target.ask_share<block_bytes<T>>(0, 1);
        if (n == 1 && k % (4 * T::block_size) == 0) target.ask_at_once<4 * block_bytes<T>>();
        add_blocks(c, w, x, k);
    }

    // As many blocks as fill whole lines.
    static constexpr int n_rolled = block_bytes<T> % 32 ? 4 : 2;
    static constexpr int rolled_k = T::block_size * n_rolled;

    static UNLADEN_INLINE void add_rolled(__m512 (&c)[1], Block<T> w, const Panel &x, int k) {
        const uint8_t *start = w.p;
#pragma GCC unroll 4
        for (int i = 0; i < n_rolled; ++i) {
            const int first = block_bytes<T> * i / 64, last = block_bytes<T> * (i + 1) / 64;
            ask_rolled<T>(start + 64 * first, last - first);
            add_blocks(c, w, x, k + T::block_size * i);
            skip_blocks<T>(w, 1);
            // Otherwise the compiler moves all prefetches together.
            __asm__ volatile("" ::: "memory");
        }
    }

    // The block at k, 32 weights at a time.
    template <int n>
    static UNLADEN_INLINE void add_blocks(__m512 (&c)[n], Block<T> w, const Panel &x, int k) {
        const __m512 scale = InLanes<T>::scale(w);
#pragma GCC unroll 4
        for (int i = 0; i < T::block_size; i += 32) {
            add_block(c, w, scale, x, k + i, AskNothing(), i / 4);
        }
    }

    // Adds 32 weights at k with these scales, from line `first` of a block on. half_way() is called
    // between their products.
    template <int n, class HalfWay>
    static UNLADEN_INLINE void add_block(__m512 (&c)[n], Block<T> w, __m512 scale, const Panel &x,
                                         int k, HalfWay half_way, int first = 0) {
        const size_t at = size_t(k) / 32 * columns;
        __m512i product[n];
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) product[j] = first_products<InLanes<T>>(x.minus + at + j);
        const int8_t *q = x.q + size_t(k) * columns;
        products<T, 4, n, columns>(product, w, first, q);
        half_way();
        products<T, 4, n, columns>(product, w, first + 4, q + 16 * columns);
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) {
            const __m512 scaled = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(product[j]));
            c[j] = _mm512_fmadd_ps(scaled, _mm512_set1_ps(x.d[at + j]), c[j]);
            if constexpr (InLanes<T>::bias == 0) {
                c[j] = _mm512_fmadd_ps(InLanes<T>::min(w), _mm512_set1_ps(x.sum[at + j]), c[j]);
            }
        }
    }
};

// Whether the rest of blocks of T is in an order that the hardware can't prefetch.
template <class T>
constexpr bool is_scattered = requires { T::is_scattered; };

template <class T, class Columns, int n>
void run_columns(const Job &job, const typename Columns::Panel &x) {
    alignas(64) uint8_t room[block_bytes<T>];
    // Interleaved rows are read in the order of memory. Otherwise the rows after these are
    // prefetched in order.
    const size_t distance = job.interleaved ? ahead_bytes : tile_rows * job.row_bytes;
    const Asking how = asking<n>(job);
    const bool into_l1 = job.interleaved && asks_into_l1();
    const ReadOrder order(job);
    const uint8_t *here = job.w + job.n_first * job.row_bytes;
    if (how != Asking::never) {
        ask_lines(order.after(here, 0), static_cast<int>(distance / 64), into_l1);
    }
    for (int row = job.n_first; row < job.n_last; row += tile_rows) {
        __m512 c[n];
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) c[j] = _mm512_setzero_ps();
        for (int k = 0; k < job.n_cols; k += T::block_size) {
            const Block<T> w = interleaved_at<T>(job, row, k, room);
            if (how != Asking::never || is_scattered<T>) ask_rest<T>(w, 1, into_l1);
            const PrefetchTarget target = {order.after(here, distance / 2),
                                           order.after(here, distance), how, into_l1};
            Columns::template add<n>(c, w, x, k, target);
            here += block_bytes<T>;
        }
        const __mmask16 mask = mask_of(job.n_last - row);
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) {
            if (job.t_first + j == job.t_last) break;
            _mm512_mask_storeu_ps(job.y + (job.t_first + j) * job.y_stride + row, mask, c[j]);
        }
    }
}

// One column times interleaved rows of whole rolled_k.
template <class T, class Columns>
void run_rolled(const Job &job) {
    const typename Columns::Panel x(job.act, job.n_cols);
    alignas(64) uint8_t room[block_bytes<T>];
    const uint8_t *start = job.w + job.n_first * job.row_bytes;
    ask_lines(start, static_cast<int>(RolledAhead<T>::bytes / 64), RolledAhead<T>::into_l1);
    for (int row = job.n_first; row < job.n_last; row += tile_rows) {
        Block<T> w = interleaved_at<T>(job, row, 0, room);
        __m512 c[1] = {_mm512_setzero_ps()};
        for (int k = 0; k < job.n_cols; k += Columns::rolled_k) {
            ask_rest<T>(w, Columns::rolled_k / T::block_size, RolledAhead<T>::into_l1);
            Columns::add_rolled(c, w, x, k);
            skip_blocks<T>(w, Columns::rolled_k / T::block_size);
        }
        float *y = job.y + job.t_first * job.y_stride + row;
        _mm512_mask_storeu_ps(y, mask_of(job.n_last - row), c[0]);
    }
}

// Up to eight columns: a panel of one column, or some columns of a panel of eight.
template <class T, template <class, int> class Columns>
void run_one(const Job &job) {
    run_columns<T, Columns<T, 1>, 1>(job, typename Columns<T, 1>::Panel(job.act, job.n_cols));
}
template <class T, template <class, int> class Columns>
void run_panel(const Job &job) {
    using Kernel = Columns<T, panel_columns>;
    const auto x =
        typename Kernel::Panel(job.act, job.n_cols).at(job.t_first / panel_columns);
    switch (job.t_last - job.t_first) {
        case 1: return run_columns<T, Kernel, 1>(job, x);
        case 2: return run_columns<T, Kernel, 2>(job, x);
        case 3:
        case 4: return run_columns<T, Kernel, 4>(job, x);
        case 5:
        case 6: return run_columns<T, Kernel, 6>(job, x);
        default: return run_columns<T, Kernel, 8>(job, x);
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
