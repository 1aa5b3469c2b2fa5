// The layout of rounded activations in memory: round.cc writes them, products read them.
//
// A few rows are stored one after the other. Many rows become the columns of panels of eight: four
// consecutive k of one column (int8: panel_k), then those of the next. A broadcast 4-byte load gets
// the numbers that all weight rows need. A panel of a single column is a row in its own order.
// Columns that the last panel lacks are zero, and so are numbers after the last k.
#pragma once

#include "backends/cpu/csrc/isa/contract/level.h"

#if defined(__AVX512F__) && !defined(__clang__)
// GCC 12 warns about the deliberately undefined registers inside its own intrinsics.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace unladen::cpu::UNLADEN_ISA {

// Kernels are written as small functions whose arguments must stay in registers.
#define UNLADEN_INLINE inline __attribute__((always_inline))

// A replacement of std::conditional_t.
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
// How many int8 of a column are side by side in a panel; one instruction adds up their products.
#if defined(__ARM_FEATURE_MATMUL_INT8)
constexpr int panel_k = 8;
#else
constexpr int panel_k = 4;
#endif

// The most rows of int8 that a level reads one by one instead of in panels.
#if defined(UNLADEN_AVX512)
constexpr int few_int8_rows = 1;
#elif defined(__AVX2__) || defined(UNLADEN_NEON)
constexpr int few_int8_rows = few_rows;
#else
constexpr int few_int8_rows = 0x7fffffff;
#endif

// Whether this level multiplies in lanes. Formats that are decoded row by row then read a single
// activation row in lane_order().
constexpr bool in_lanes = few_int8_rows == 1;

constexpr bool in_panels(ActFormat format, int n_rows) {
    return n_rows > (format == ActFormat::f32 ? few_rows : few_int8_rows);
}

// Whether the sums of a single row have the same order as those of a row among others.
constexpr bool has_one_order(ActFormat format) {
    return in_lanes && (format == ActFormat::q8_32 || format == ActFormat::q8_256);
}

constexpr size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// Hands out consecutive arrays of one buffer, each a multiple of 64 bytes. Without a buffer it only
// counts bytes. Arrays of a const buffer are writable, too, because round.cc and readers share this
// class; readers must not write through them.
class Carver {
public:
    explicit Carver(const void *base) : base_(static_cast<uint8_t *>(const_cast<void *>(base))) {}
    template <class T>
    T *take(size_t n) {
        T *array = base_ ? reinterpret_cast<T *>(base_ + used_) : nullptr;
        used_ += round_up(n * sizeof(T), 64);
        return array;
    }
    size_t used() const { return used_; }

private:
    uint8_t *base_;
    size_t used_ = 0;
};

// One of several objects of the same kind, one after the other in rounded activations:
// Rounded<...>(base, n_cols) is the first, at(i) is number i.
template <class Fields>
struct Rounded : Fields {
    size_t bytes;
    Rounded() = default;
    Rounded(const void *base, int n_cols) {
        Carver carver(base);
        Fields::carve(carver, size_t(n_cols));
        bytes = carver.used();
    }
    UNLADEN_INLINE Rounded at(int index) const {
        Rounded other = *this;
        other.move(size_t(index) * bytes);
        return other;
    }
};

template <class T>
UNLADEN_INLINE void move_by(T *&p, size_t bytes) {
    p = reinterpret_cast<T *>(reinterpret_cast<uint8_t *>(p) + bytes);
}

struct RowF32Fields {
    float *x;  // [n_cols, in whole 16s]
    void carve(Carver &c, size_t n) { x = c.take<float>(round_up(n, 16)); }
    UNLADEN_INLINE void move(size_t bytes) { move_by(x, bytes); }
};

struct PanelF32Fields {
    float *x;  // [n_cols, in whole 16s][8]
    void carve(Carver &c, size_t n) { x = c.take<float>(round_up(n, 16) * panel_columns); }
    UNLADEN_INLINE void move(size_t bytes) { move_by(x, bytes); }
};

// x[k] = d * q[k], a d per 32.
struct Row32Fields {
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

// The same for weights whose blocks have codes as nibbles of 16 bytes: the bytes of two blocks fill
// an AVX2 register. Eight blocks of a Row32 are stored in pairs: at 64 i the first 16 q of block
// i < 4 and those of block i + 4, then the last 16 of both. Blocks left after whole eights are in
// their own order. In a Row256 neighbouring blocks of 32 are pairs.
template <class Each>
struct PairsFields : Each {
    int8_t *size;  // [n_cols]: the magnitude of each q
    int n_whole;   // numbers in whole 256s
    void carve(Carver &c, size_t n) {
        Each::carve(c, n);
        size = c.take<int8_t>(n);
        n_whole = int(n / 256 * 256);
    }
    UNLADEN_INLINE void move(size_t bytes) {
        Each::move(bytes);
        move_by(size, bytes);
    }
};

template <int columns>
struct Panel32Fields {
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

// The place of sixteen number s of a block of 256 in the order of AVX-512 kernels for few rows. One
// register holds sixteens j, j + 4, j + 8 and j + 12, since formats keep their codes in the same or
// neighbouring bytes.
constexpr int lane_order(int s) { return s % 4 * 4 + s / 4; }

// x[k] = d * q[k], a d per 256.
struct Row256Fields {
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
struct Panel256Fields {
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

using RowF32 = Rounded<RowF32Fields>;
using PanelF32 = Rounded<PanelF32Fields>;
using Row32 = Rounded<Row32Fields>;
using Row32Pairs = Rounded<PairsFields<Row32Fields>>;
using Row256 = Rounded<Row256Fields>;
using Row256Pairs = Rounded<PairsFields<Row256Fields>>;
template <int columns>
using Panel32Of = Rounded<Panel32Fields<columns>>;
template <int columns>
using Panel256Of = Rounded<Panel256Fields<columns>>;
using Panel32 = Panel32Of<panel_columns>;
using Panel256 = Panel256Of<panel_columns>;

}  // namespace unladen::cpu::UNLADEN_ISA
