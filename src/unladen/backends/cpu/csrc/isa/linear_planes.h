// How rows lie that have moved: interleaved, and of Q6_K codes in three planes as well.
#pragma once

#include "backends/cpu/csrc/isa/linear_across256.h"
#include "backends/cpu/csrc/isa/linear_across32.h"

namespace unladen::cpu::UNLADEN_ISA {

// d and scales as in an interleaved block of Q6_K. Then for each sub-block three lines of memory,
// which are its first three lines of codes and, above them, two bits each of the fourth. That is
// an instruction less for each, and all are read once and in order: from L2 1.28 times as fast,
// from memory 1.07 times on Zen 4.
struct Q6_KPlanes : Q6_K {
    static constexpr int first = Fields<Q6_K>::place(0);
};

template <>
struct Across<Q6_KPlanes> : Across<Q6_K> {
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        const int at = Q6_KPlanes::first + i / 4 * 12;
        if (i % 4 < 3) return masked(w.four(at + i % 4 * 4), 0x3f);
        return either(either(shifted(w.four(at), 6, 2, 4), shifted(w.four(at + 4), 6, 2, 2)),
                      shifted(w.four(at + 8), 6, 2, 0));
    }
};

// Moved<T>: what the blocks of T are when their rows have moved; move() lays out sixteen rows'.
template <class T>
struct MovedAs {
    using Type = T;
    static void move(uint8_t *to, Sixteen block) { interleave<T>(to, block); }
};
template <>
struct MovedAs<Q6_K> {
    using Type = Q6_KPlanes;
    static void move(uint8_t *to, Sixteen block) {
        alignas(64) uint8_t room[tile_rows * Q6_K::block_bytes];
        interleave<Q6_K>(room, block);
        std::memcpy(to, room, tile_rows * Q6_KPlanes::first);
        to += tile_rows * Q6_KPlanes::first;
        for (int i = 0; i < 64; i += 4) {
            const __m512i fourth = Across<Q6_K>::line({room}, i + 3);
            for (int j = 0; j < 3; ++j, to += 64) {
                const __m512i top = shifted(fourth, 4 - 2 * j, 2, 6);
                _mm512_storeu_si512(to, either(Across<Q6_K>::line({room}, i + j), top));
            }
        }
    }
};
template <class T>
using Moved = typename MovedAs<T>::Type;

// Whole sixteens of rows, one after another.
template <class T>
void interleave_rows(uint8_t *to, const uint8_t *w, int n_rows, int n_cols) {
    const size_t row_bytes = size_t(n_cols / T::block_size) * T::block_bytes;
    for (int row = 0; row < n_rows; row += tile_rows, w += tile_rows * row_bytes) {
        for (size_t at = 0; at < row_bytes; at += T::block_bytes) {
            MovedAs<T>::move(to, {w + at, row_bytes});
            to += tile_rows * T::block_bytes;
        }
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
