// How packed activations lie in memory: linear_pack.cc writes them, the other linear files read.
//
// Few rows lie one after the other. Many become the columns of panels of eight, four consecutive k
// of one column (int8: panel_k) beside those of the next: a broadcast 4-byte load brings what all
// weight rows need. So does a panel of a single column, which is a row in its own order.
// What the last panel lacks in columns, and any of them after the last k, is zero.
#pragma once

#include "backends/cpu/csrc/isa/level.h"

#if defined(__AVX512F__) && !defined(__clang__)
// GCC 12 takes the deliberately undefined registers inside its own intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace unladen::cpu::UNLADEN_ISA {

// Kernels are written as small functions whose arguments must stay in registers.
#define UNLADEN_INLINE inline __attribute__((always_inline))

// What std::conditional_t is.
template <bool first, class A, class B>
struct Chosen {
    using type = A;
};
template <class A, class B>
struct Chosen<false, A, B> {
    using type = B;
};
template <bool first, class A, class B>
using Choose = typename Chosen<first, A, B>::type;

constexpr int few_rows = 4;
constexpr int panel_columns = 8;
// How many int8 of a column lie together in a panel: as many as one instruction adds up.
#if defined(__ARM_FEATURE_MATMUL_INT8)
constexpr int panel_k = 8;
#else
constexpr int panel_k = 4;
#endif

// Up to how many rows of int8 each level reads one by one; portable kernels all of them.
#if defined(__AVX512VNNI__)
constexpr int few_int8_rows = 1;
#elif defined(__AVX2__) || defined(UNLADEN_NEON)
constexpr int few_int8_rows = few_rows;
#else
constexpr int few_int8_rows = 0x7fffffff;
#endif

// Whether formats that are decoded row by row want activations in lanes, see lane_order().
constexpr bool in_lanes = few_int8_rows == 1;

constexpr bool in_panels(ActFormat format, int n_rows) {
    return n_rows > (format == ActFormat::f32 ? few_rows : few_int8_rows);
}

// Whether the sums of a row alone are those of a row among others.
constexpr bool has_one_order(ActFormat format) {
    return in_lanes && (format == ActFormat::q8_32 || format == ActFormat::q8_256);
}

constexpr size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// Consecutive parts of one buffer, each a multiple of 64 bytes; without a buffer it only counts.
// Readers must not write through them: what comes from a const buffer is handed out writable, for
// the packer's sake.
class Carver {
public:
    explicit Carver(const void *base) : base_(static_cast<uint8_t *>(const_cast<void *>(base))) {}
    template <class T>
    T *take(size_t n) {
        T *part = base_ ? reinterpret_cast<T *>(base_ + used_) : nullptr;
        used_ += round_up(n * sizeof(T), 64);
        return part;
    }
    size_t used() const { return used_; }

private:
    uint8_t *base_;
    size_t used_ = 0;
};

// One of several objects of the same kind that lie one after the other in packed activations:
// Packed<...>(base, n_cols) is the first, at(i) the others.
template <class Parts>
struct Packed : Parts {
    size_t bytes;
    Packed() = default;
    Packed(const void *base, int n_cols) {
        Carver carver(base);
        Parts::carve(carver, size_t(n_cols));
        bytes = carver.used();
    }
    UNLADEN_INLINE Packed at(int index) const {
        Packed other = *this;
        other.move(size_t(index) * bytes);
        return other;
    }
};

template <class T>
UNLADEN_INLINE void move_by(T *&p, size_t bytes) {
    p = reinterpret_cast<T *>(reinterpret_cast<uint8_t *>(p) + bytes);
}

struct RowF32Parts {
    float *x;  // [n_cols, in whole 16s]
    void carve(Carver &c, size_t n) { x = c.take<float>(round_up(n, 16)); }
    UNLADEN_INLINE void move(size_t bytes) { move_by(x, bytes); }
};

struct PanelF32Parts {
    float *x;  // [n_cols, in whole 16s][8]
    void carve(Carver &c, size_t n) { x = c.take<float>(round_up(n, 16) * panel_columns); }
    UNLADEN_INLINE void move(size_t bytes) { move_by(x, bytes); }
};

// x[k] = d * q[k], a d per 32.
struct Row32Parts {
    int8_t *q;   // [n_cols]
    float *d;    // [n_blocks]
    float *sum;  // [n_blocks]: d times the sum of q
    void carve(Carver &c, size_t n) {
        q = c.take<int8_t>(n);
        d = c.take<float>(n / 32);
        sum = c.take<float>(n / 32);
    }
    UNLADEN_INLINE void move(size_t bytes) {
        move_by(q, bytes), move_by(d, bytes), move_by(sum, bytes);
    }
};

// The same for codes that are halves of 16 bytes, of which two blocks' fill an AVX2 register. Of
// eight blocks of a Row32 the first 16 q of block i < 4 stand at 64 i, then those of block i + 4,
// the last 16 of block i and of block i + 4; what is left after whole eights stands in its own
// order. Of a Row256 neighbouring blocks of 32 stand so.
template <class Parts>
struct PairsParts : Parts {
    int8_t *size;  // [n_cols]: of each q
    int n_whole;   // numbers in whole 256s
    void carve(Carver &c, size_t n) {
        Parts::carve(c, n);
        size = c.take<int8_t>(n);
        n_whole = int(n / 256 * 256);
    }
    UNLADEN_INLINE void move(size_t bytes) {
        Parts::move(bytes);
        move_by(size, bytes);
    }
};

template <int columns>
struct Panel32Parts {
    int8_t *q;       // [n_cols / panel_k][columns][panel_k]
    float *d;        // [n_blocks][columns]
    float *sum;      // [n_blocks][columns]: d times the sum of q
    int32_t *minus;  // [n_blocks][columns]: minus the sum of q; with AVX-512 alone
    void carve(Carver &c, size_t n) {
        q = c.take<int8_t>(n * columns);
        d = c.take<float>(n / 32 * columns);
        sum = c.take<float>(n / 32 * columns);
        minus = c.take<int32_t>(in_lanes ? n / 32 * columns : 0);
    }
    UNLADEN_INLINE void move(size_t bytes) {
        move_by(q, bytes), move_by(d, bytes), move_by(sum, bytes), move_by(minus, bytes);
    }
};

// Where the AVX-512 kernels for few rows want sixteen number s of a block of 256: one register
// holds numbers j, j + 4, j + 8 and j + 12, since formats keep these in the same bytes or next to
// each other's.
constexpr int lane_order(int s) { return s % 4 * 4 + s / 4; }

// x[k] = d * q[k], a d per 256.
struct Row256Parts {
    int8_t *q;       // [n_cols]; q8_256_lanes: within a block as lane_order says
    float *d;        // [n_blocks]
    int16_t *minus;  // [n_cols / 16]: minus the sum of 16 q
    void carve(Carver &c, size_t n) {
        q = c.take<int8_t>(n);
        d = c.take<float>(n / 256);
        minus = c.take<int16_t>(n / 16);
    }
    UNLADEN_INLINE void move(size_t bytes) {
        move_by(q, bytes), move_by(d, bytes), move_by(minus, bytes);
    }
};

template <int columns>
struct Panel256Parts {
    int8_t *q;         // [n_cols / panel_k][columns][panel_k]
    float *d;          // [n_blocks][columns]
    int16_t *minus16;  // [n_cols / 32][columns][2]: minus the sums of 16 q
    int16_t *minus32;  // [n_cols / 64][columns][2]: of 32
    int32_t *times32;  // [n_cols / 16][columns]: 32 times minus16; with AVX-512 alone
    void carve(Carver &c, size_t n) {
        q = c.take<int8_t>(n * columns);
        d = c.take<float>(n / 256 * columns);
        minus16 = c.take<int16_t>(n / 16 * columns);
        minus32 = c.take<int16_t>(n / 32 * columns);
        times32 = c.take<int32_t>(in_lanes ? n / 16 * columns : 0);
    }
    UNLADEN_INLINE void move(size_t bytes) {
        move_by(q, bytes), move_by(d, bytes), move_by(minus16, bytes), move_by(minus32, bytes);
        move_by(times32, bytes);
    }
};

using RowF32 = Packed<RowF32Parts>;
using PanelF32 = Packed<PanelF32Parts>;
using Row32 = Packed<Row32Parts>;
using Row32Pairs = Packed<PairsParts<Row32Parts>>;
using Row256 = Packed<Row256Parts>;
using Row256Pairs = Packed<PairsParts<Row256Parts>>;
template <int columns>
using Panel32Of = Packed<Panel32Parts<columns>>;
template <int columns>
using Panel256Of = Packed<Panel256Parts<columns>>;
using Panel32 = Panel32Of<panel_columns>;
using Panel256 = Panel256Of<panel_columns>;

}  // namespace unladen::cpu::UNLADEN_ISA
