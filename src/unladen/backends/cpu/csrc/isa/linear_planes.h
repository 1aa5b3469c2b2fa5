// How rows lie that have moved: interleaved, and codes of three, five and six bits in planes, which
// are lines of codes with bits of others above them. That takes fewer instructions, and all is read
// once and in order. On Zen 4 Q3_K, Q5_K and Q6_K come from L2 1.53, 1.30 and 1.28 times as fast,
// from memory 1.25, 1.14 and 1.07 times.
#pragma once

#include "backends/cpu/csrc/isa/linear_across256.h"
#include "backends/cpu/csrc/isa/linear_plane_bits.h"

namespace unladen::cpu::UNLADEN_ISA {

// Blocks of T that have moved: what stands before the codes is as in an interleaved block.
template <class T>
struct Planes : T {};

// Groups of n_lines lines of codes in n_planes planes, after the first bytes of each row.
template <int first_bytes, int lines, int planes>
struct PlanesOf {
    static constexpr int first = first_bytes, n_lines = lines, n_planes = planes;
    // Plane j of line i's group.
    static UNLADEN_INLINE __m512i plane(Interleaved w, int i, int j) {
        return w.four(first + (i / n_lines * n_planes + j) * 4);
    }
};

// Two sub-blocks' eight lines, as ThreePlanes has them.
template <>
struct Across<Planes<Q3_K>> : AcrossQ3KHeader<Across<Planes<Q3_K>>>,
                              PlanesOf<Fields<Q3_K>::place(32), 8, 3> {
    static constexpr int times(int s) { return s % 2 ? 8 : 1; }
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        const int j = i % 8;
        if (j % 4 < 3) return masked(plane(w, i, j % 4), j < 4 ? 0x07 : 0x38);
        const __m512i high = shifted(plane(w, i, 1), j < 4 ? 6 : 7, 1, j < 4 ? 2 : 5);
        return with_bits(high, plane(w, i, j < 4 ? 0 : 2), 6, 2, j < 4 ? 0 : 3);
    }
    static UNLADEN_INLINE void join(const __m512i (&q)[8], __m512i (&plane)[3]) {
        ThreePlanes::join(q, plane);
    }
};

// Eight lines of five bits, which stand `up` bits high.
template <int first, int up>
struct FiveBits : PlanesOf<first, 8, 5> {
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        const auto plane = [=](int j) __attribute__((always_inline)) {
            return FiveBits::plane(w, i, j);
        };
        return FivePlanes<up>::line(plane, i % 8);
    }
    static UNLADEN_INLINE void join(const __m512i (&q)[8], __m512i (&plane)[5]) {
        FivePlanes<up>::join(q, plane);
    }
};

template <>
struct Across<Planes<Q5_K>> : AcrossKHeader<Q5_K>, FiveBits<16, 0>, TimesOne {};

// Two bits each of line 3 stand above the others.
template <>
struct Across<Planes<Q6_K>> : AcrossQ6KHeader<TimesOne>,
                              PlanesOf<Fields<Q6_K>::place(0), 4, 3>,
                              TimesOne {
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        if (i % 4 < 3) return masked(plane(w, i, i % 4), 0x3f);
        const __m512i low = with_bits(shifted(plane(w, i, 2), 6, 2, 0), plane(w, i, 1), 6, 2, 2);
        return with_bits(low, plane(w, i, 0), 6, 2, 4);
    }
    static UNLADEN_INLINE void join(const __m512i (&q)[4], __m512i (&plane)[3]) {
        for (int j = 0; j < 3; ++j) plane[j] = with_bits(q[j], q[3], 4 - 2 * j, 2, 6);
    }
};

template <class T>
constexpr bool has_planes = requires { Across<Planes<T>>::n_planes; };

// What the blocks of T are when their rows have moved.
template <class T>
using Moved = Choose<has_planes<T>, Planes<T>, T>;

// A block of sixteen rows.
template <class T>
UNLADEN_INLINE void move_block(uint8_t *to, Sixteen block) {
    if constexpr (!has_planes<T>) {
        interleave<T>(to, block);
    } else {
        using A = Across<Planes<T>>;
        alignas(64) uint8_t room[tile_rows * T::block_bytes];
        interleave<T>(room, block);
        std::memcpy(to, room, tile_rows * A::first);
        to += tile_rows * A::first;
#pragma GCC unroll 16
        for (int i = 0; i < 64; i += A::n_lines) {
            __m512i lines[A::n_lines], planes[A::n_planes];
#pragma GCC unroll 8
            for (int j = 0; j < A::n_lines; ++j) lines[j] = Across<T>::line({room}, i + j);
            A::join(lines, planes);
#pragma GCC unroll 8
            for (int j = 0; j < A::n_planes; ++j, to += 64) _mm512_storeu_si512(to, planes[j]);
        }
    }
}

// Whole sixteens of rows, one after another.
template <class T>
void interleave_rows(uint8_t *to, uint8_t *, float *, const uint8_t *w, int n_rows, int n_cols) {
    const size_t row_bytes = size_t(n_cols / T::block_size) * T::block_bytes;
    for (int row = 0; row < n_rows; row += tile_rows, w += tile_rows * row_bytes) {
        for (size_t at = 0; at < row_bytes; at += T::block_bytes) {
            move_block<T>(to, {w + at, row_bytes});
            to += tile_rows * T::block_bytes;
        }
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
