// Few activation rows: codes of sixteen weight rows are decoded in registers and multiplied there.
#pragma once

#include "backends/cpu/csrc/isa/linear_across256.h"
#include "backends/cpu/csrc/isa/linear_across32.h"
#include "backends/cpu/csrc/isa/linear_drive.h"
#include "backends/cpu/csrc/isa/linear_parts.h"

namespace unladen::cpu::UNLADEN_ISA {

// sum += products of four codes of each row with the four at q. Of intrinsics GCC 12 makes two
// instructions.
UNLADEN_INLINE void add_products(__m512i &sum, __m512i line, const int8_t *q) {
#ifdef UNLADEN_EMULATED
    sum = _mm512_dpbusd_epi32(sum, line, broadcast4(q));
#else
    __asm__("vpdpbusd %2%{1to16%}, %1, %0"
            : "+v"(sum)
            : "v"(line), "m"(*reinterpret_cast<const int8_t(*)[4]>(q)));
#endif
}

// Adds lines first ... first + n_lines - 1 of a block times n columns; q points at the first one's.
template <class T, int n_lines, int n, int columns>
UNLADEN_INLINE void products(__m512i (&sum)[n], Block<T> w, int first, const int8_t *q) {
#pragma GCC unroll 8
    for (int i = 0; i < n_lines; ++i) {
        const __m512i line = Across<T>::line(w, first + i);
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) {
            add_products(sum[j], line, q + 4 * (columns * i + j));
        }
    }
}

template <class T>
constexpr size_t block_bytes = tile_rows * T::block_bytes;

// How the hardware is told what to read: not at all; a block at once, with which one column came
// faster by 3 to 15 % on Zen 5; by parts, where products would wait for so many; or by parts, and
// once more half way there (4 KiB ahead): one column of Q4_K comes at 0.96 of the memory's speed
// instead of 0.79 on Emerald Rapids, eight of Q8_0 at 0.83 instead of 0.61.
enum class Asking { never, at_once, by_parts, in_steps };

template <int n>
Asking asking(const Job &job) {
    if (job.interleaved && reads_in_steps()) return Asking::in_steps;
    if (n > 1) return Asking::by_parts;
    return job.interleaved && reads_alone() ? Asking::never : Asking::at_once;
}

// Whether one column's lines come fastest when few instructions read them all, each the next after
// as few bytes, as on Zen 5, which seems to foresee what an instruction reads next. A block in a
// loop over its parts, which asks for as many some way ahead, comes to one thread at 0.96 to 1.00
// of the speed of a plain loop that only reads, unrolled as above at 0.87 to 0.96.
inline bool reads_rolled() { return asks_into_l1(); }

// How far ahead, and whether into L1. Half as far where decoding takes few instructions; codes that
// aren't decoded come by 3 % faster into L2, for there half of the loads take two lines.
template <class T>
struct RolledAhead {
    static constexpr size_t bytes = ahead_bytes;
    static constexpr bool into_l1 = true;
};
template <>
struct RolledAhead<Q8_0> {
    static constexpr size_t bytes = ahead_bytes / 2;
    static constexpr bool into_l1 = false;
};
template <>
struct RolledAhead<Q4_0> {
    static constexpr size_t bytes = ahead_bytes / 2;
    static constexpr bool into_l1 = true;
};
template <>
struct RolledAhead<Q4_1> : RolledAhead<Q4_0> {};
template <>
struct RolledAhead<IQ4_NL> : RolledAhead<Q4_0> {};
template <>
struct RolledAhead<Coarse<Q8_0>> : RolledAhead<Q4_0> {};
template <>
struct RolledAhead<Whole<Q8_0>> : RolledAhead<Q4_0> {};

// Asks for n lines so far ahead of p.
template <class T>
UNLADEN_INLINE void ask_rolled(const uint8_t *p, int n) {
    ask_lines(p + RolledAhead<T>::bytes, n, RolledAhead<T>::into_l1);
}

// Lines of A's codes after which the same come again, and their bytes, or a multiple of both.
template <class A>
struct Repeat;
template <class A>
    requires requires { A::n_planes; }
struct Repeat<A> {
    static constexpr int lines = 8, bytes = 64 * A::n_planes * lines / A::n_lines;
};
template <>
struct Repeat<Across<Q4_K>> {
    static constexpr int lines = 16, bytes = 512;
};
template <>
struct Repeat<Across<IQ4_XS>> : Repeat<Across<Q4_K>> {};
template <>
struct Repeat<Across<Q2_K>> {
    static constexpr int lines = 32, bytes = 512;
};
template <>
struct Repeat<Across<TQ2_0>> : Repeat<Across<Q2_K>> {};

// Asks for the second parts that will be needed when n blocks on from `w` the first ones are.
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

// What is asked for: `far` what is read a distance further on than now, `near` half way there.
struct Further {
    const uint8_t *near, *far;
    Asking how;
    bool into_l1;

    // Part i of n_parts of the next n_bytes.
    template <int n_bytes>
    UNLADEN_INLINE void ask_part(int i, int n_parts) const {
        if (how < Asking::by_parts) return;
        constexpr int n_lines = (n_bytes + 63) / 64;
        const int first = n_lines * i / n_parts, last = n_lines * (i + 1) / n_parts;
        if (how == Asking::in_steps) ask_lines(near + 64 * first, last - first, true);
        ask_lines(far + 64 * first, last - first, into_l1);
    }
    template <int n_bytes>
    UNLADEN_INLINE void ask_at_once() const {
        if (how == Asking::at_once) ask_lines(far, (n_bytes + 63) / 64, into_l1);
    }
};

// What is asked for on the way. Not lambdas, of which GCC 12 removes calls that only ask.
struct AskNothing {
    UNLADEN_INLINE void operator()() const {}
};
template <int n_bytes>
struct AskPart {
    const Further &further;
    int i, n_parts;
    UNLADEN_INLINE void operator()() const { further.ask_part<n_bytes>(i, n_parts); }
};

// Of blocks of 256, with columns of a panel of so many.
template <class T, int columns>
struct Few256 {
    using Panel = Panel256Of<columns>;
    using A = Across<T>;
    static constexpr int sub = A::sub;

    // Adds the block at k to the sums of n columns.
    template <int n>
    static UNLADEN_INLINE void add(__m512 (&c)[n], Block<T> w, const Panel &x, int k,
                                   Further further) {
        if constexpr (n == 1) further.ask_at_once<block_bytes<T>>();
        Scales256 scales;
        A::scales(scales, w);
        const int8_t *q = x.q + size_t(k) * columns;
        const int32_t *times32 = x.times32 + size_t(k) / 16 * columns;
        __m512 sum[n];
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) sum[j] = _mm512_setzero_ps();
#pragma GCC unroll 16
        for (int s = 0; s < 256 / sub; ++s) {
            further.ask_part<block_bytes<T>>(s, 256 / sub);
            // Or scales would be kept in registers that many sums need.
            __asm__ volatile("" ::"r"(n > 4 ? &scales : nullptr) : "memory");
            add_sub(sum, w, s, scales.scale[s], q, times32);
        }
        add_rest(c, sum, scales, x, k);
    }

    static constexpr int rolled_k = 256;

    // The same of one column.
    static UNLADEN_INLINE void add_rolled(__m512 (&c)[1], Block<T> w, const Panel &x, int k) {
        using Part = Repeat<A>;
        constexpr int n_subs = 4 * Part::lines / sub;
        constexpr int part_bytes = block_bytes<T> * Part::lines / 64;
        Scales256 scales;
        A::scales(scales, w);
        const int8_t *q = x.q + k;
        const int32_t *times32 = x.times32 + k / 16;
        const uint8_t *next = w.p;
        __m512 sum[1] = {_mm512_setzero_ps()};
#pragma GCC unroll 1
        for (int part = 0; part < 256 / sub; part += n_subs) {
            ask_rolled<T>(next, (part_bytes + 63) / 64);
#pragma GCC unroll 8
            for (int s = 0; s < n_subs; ++s) {
                add_sub(sum, w, s, scales.scale[part + s], q, times32);
            }
            skip_codes<T>(w, Part::bytes);
            next += part_bytes, q += 4 * Part::lines, times32 += n_subs;
        }
        add_rest(c, sum, scales, x, k);
    }

private:
    // Adds sub-block s of those whose first one's codes are multiplied with q.
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

    // Adds the block's sums and what it has beside them.
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

// Of blocks of 32.
template <class T, int columns>
struct Few32 {
    using Panel = Panel32Of<columns>;

    template <int n>
    static UNLADEN_INLINE void add(__m512 (&c)[n], Block<T> w, const Panel &x, int k,
                                   Further further) {
        further.ask_part<block_bytes<T>>(0, 1);
        if (n == 1 && k % 128 == 0) further.ask_at_once<4 * block_bytes<T>>();
        add_block(c, w, Across<T>::scale(w), x, k, AskNothing());
    }

    // As many as take whole lines.
    static constexpr int n_rolled = block_bytes<T> % 32 ? 4 : 2, rolled_k = 32 * n_rolled;

    static UNLADEN_INLINE void add_rolled(__m512 (&c)[1], Block<T> w, const Panel &x, int k) {
        const uint8_t *start = w.p;
#pragma GCC unroll 4
        for (int i = 0; i < n_rolled; ++i) {
            const int first = block_bytes<T> * i / 64, last = block_bytes<T> * (i + 1) / 64;
            ask_rolled<T>(start + 64 * first, last - first);
            add_block(c, w, Across<T>::scale(w), x, k + 32 * i, AskNothing());
            skip_blocks<T>(w, 1);
            // Or all would be asked for at once.
            __asm__ volatile("" ::: "memory");
        }
    }

    // The block at k, whose scales are these; `half_way` is called between its products.
    template <int n, class HalfWay>
    static UNLADEN_INLINE void add_block(__m512 (&c)[n], Block<T> w, __m512 scale, const Panel &x,
                                         int k, HalfWay half_way) {
        const size_t at = size_t(k) / 32 * columns;
        __m512i product[n];
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) product[j] = first_products<T>(x.minus + at + j);
        const int8_t *q = x.q + size_t(k) * columns;
        products<T, 4, n, columns>(product, w, 0, q);
        half_way();
        products<T, 4, n, columns>(product, w, 4, q + 16 * columns);
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) {
            const __m512 scaled = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(product[j]));
            c[j] = _mm512_fmadd_ps(scaled, _mm512_set1_ps(x.d[at + j]), c[j]);
            if constexpr (Across<T>::bias == 0) {
                c[j] = _mm512_fmadd_ps(Across<T>::min(w), _mm512_set1_ps(x.sum[at + j]), c[j]);
            }
        }
    }
};

// Whether second parts of blocks of T lie in an order that no hardware foresees.
template <class T>
constexpr bool is_scattered = requires { T::is_scattered; };

template <class T, class Few, int n>
void run_few(const Job &job, const typename Few::Panel &x) {
    alignas(64) uint8_t room[block_bytes<T>];
    // Interleaved, what is read next lies next; else the rows after these are asked for in order.
    const size_t distance = job.interleaved ? ahead_bytes : tile_rows * job.row_bytes;
    const Asking how = asking<n>(job);
    const bool into_l1 = job.interleaved && asks_into_l1();
    const Stream stream(job);
    const uint8_t *here = job.w + job.n_first * job.row_bytes;
    if (how != Asking::never) {
        ask_lines(stream.after(here, 0), static_cast<int>(distance / 64), into_l1);
    }
    for (int row = job.n_first; row < job.n_last; row += tile_rows) {
        __m512 c[n];
#pragma GCC unroll 8
        for (int j = 0; j < n; ++j) c[j] = _mm512_setzero_ps();
        for (int k = 0; k < job.n_cols; k += T::block_size) {
            const Block<T> w = interleaved_at<T>(job, row, k, room);
            if (how != Asking::never || is_scattered<T>) ask_rest<T>(w, 1, into_l1);
            const Further further = {stream.after(here, distance / 2),
                                     stream.after(here, distance), how, into_l1};
            Few::template add<n>(c, w, x, k, further);
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

// One column of rows that have moved, of whole rolled_k.
template <class T, class Few>
void run_rolled(const Job &job) {
    const typename Few::Panel x(job.act, job.n_cols);
    alignas(64) uint8_t room[block_bytes<T>];
    const uint8_t *start = job.w + job.n_first * job.row_bytes;
    ask_lines(start, static_cast<int>(RolledAhead<T>::bytes / 64), RolledAhead<T>::into_l1);
    for (int row = job.n_first; row < job.n_last; row += tile_rows) {
        Block<T> w = interleaved_at<T>(job, row, 0, room);
        __m512 c[1] = {_mm512_setzero_ps()};
        for (int k = 0; k < job.n_cols; k += Few::rolled_k) {
            ask_rest<T>(w, Few::rolled_k / T::block_size, RolledAhead<T>::into_l1);
            Few::add_rolled(c, w, x, k);
            skip_blocks<T>(w, Few::rolled_k / T::block_size);
        }
        float *y = job.y + job.t_first * job.y_stride + row;
        _mm512_mask_storeu_ps(y, mask_of(job.n_last - row), c[0]);
    }
}

// Up to eight activation rows: a panel of one column, or so many of a panel of eight.
template <class T, template <class, int> class Few>
void run_one(const Job &job) {
    run_few<T, Few<T, 1>, 1>(job, typename Few<T, 1>::Panel(job.act, job.n_cols));
}
template <class T, template <class, int> class Few>
void run_panel(const Job &job) {
    using Kernel = Few<T, panel_columns>;
    const auto x =
        typename Kernel::Panel(job.act, job.n_cols).at(job.t_first / panel_columns);
    switch (job.t_last - job.t_first) {
        case 1: return run_few<T, Kernel, 1>(job, x);
        case 2: return run_few<T, Kernel, 2>(job, x);
        case 3:
        case 4: return run_few<T, Kernel, 4>(job, x);
        case 5:
        case 6: return run_few<T, Kernel, 6>(job, x);
        default: return run_few<T, Kernel, 8>(job, x);
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
