// Divides rows of an output head; divided512.h describes the layout.
#pragma once

#include "backends/cpu/csrc/isa/products/interleave512.h"
#include "backends/cpu/csrc/isa/screening/divided512.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class T>
    requires requires { T::rest_bytes; }
UNLADEN_INLINE CoarseAndRest interleaved_at(const Job &job, int row, int k, uint8_t *) {
    const size_t rest_row_bytes = size_t(job.n_cols / T::block_size) * T::rest_bytes;
    CoarseAndRest w = {{job.w + row * job.row_bytes}, job.rest + row * rest_row_bytes};
    skip_blocks<T>(w, k / T::block_size);
    return w;
}

// Divides a block of sixteen rows.
template <class T>
UNLADEN_INLINE void divide_block(uint8_t *to, uint8_t *rest, Sixteen block) {
    using A = InLanes<Whole<T>>;
    alignas(64) uint8_t room[tile_rows * T::block_bytes];
    interleave<T>(room, block);
    std::memcpy(to, room, tile_rows * A::first);
    to += tile_rows * A::first;
#pragma GCC unroll 8
    for (int i = 0; i < T::block_size / 4; i += 8, rest += 64 * A::n_rest) {
        __m512i codes[8], planes[5], low[A::n_rest];
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) codes[j] = A::code({room}, i + j);
        A::join(codes, planes);
        A::join_rest(codes, low);
        for (int j = 0; j < 5; ++j, to += 64) _mm512_storeu_si512(to, planes[j]);
        for (int j = 0; j < A::n_rest; ++j) _mm512_storeu_si512(rest + 64 * j, low[j]);
    }
}

// Divides sixteens of rows. The coarse rows follow one another, and so do their rests.
template <class T>
void divide_rows(uint8_t *to, uint8_t *rest, const uint8_t *w, int n_rows, int n_cols) {
    const size_t row_bytes = size_t(n_cols / T::block_size) * T::block_bytes;
    for (int row = 0; row < n_rows; row += tile_rows, w += tile_rows * row_bytes) {
        for (size_t at = 0; at < row_bytes; at += T::block_bytes) {
            divide_block<T>(to, rest, {w + at, row_bytes});
            to += tile_rows * Coarse<T>::block_bytes;
            rest += tile_rows * rest_bytes_of<T>;
        }
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
