// Interleaves rows; formats/lanes512.h describes the layout.
#pragma once

#include "backends/cpu/csrc/isa/formats/planes512.h"
#include "backends/cpu/csrc/isa/products/loops.h"

namespace unladen::cpu::UNLADEN_ISA {

// How many bytes of small fields, from field i on, can be read together: at most 16, each at a
// multiple of its size.
template <class T>
constexpr int small_bytes(int i) {
    int n = 0;
    for (; i < Fields<T>::n; ++i) {
        const int size = Fields<T>::bytes[i];
        if (size == 16 || n % size || n + size > 16) break;
        n += size;
    }
    return n;
}

// Field i of lanes of small fields, `at` bytes from their first, which is at `from` of a block.
template <class T, int i, int from, int at, int n>
UNLADEN_INLINE void put_small(uint8_t *block, const Lanes &lanes) {
    constexpr int size = Fields<T>::bytes[i];
    uint8_t *to = block + 16 * Fields<T>::place(from + at);
    const __m512i v = _mm512_srli_epi32(lanes.v[at / 4], at % 4 * 8);
    if constexpr (size == 4) _mm512_storeu_si512(to, v);
    if constexpr (size == 2) {
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), _mm512_cvtepi32_epi16(v));
    }
    if constexpr (size == 1) {
        _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm512_cvtepi32_epi8(v));
    }
    if constexpr (at + size < n) put_small<T, i + 1, from, at + size, n>(block, lanes);
}

// Interleaves field i and those after it, from byte `at` on, of a block of sixteen rows.
template <class T, int i = 0, int at = 0>
UNLADEN_INLINE void interleave(uint8_t *to, Sixteen block) {
    if constexpr (i < Fields<T>::n) {
        if constexpr (Fields<T>::bytes[i] == 16) {
            const Lanes lanes = block.at(at).load();
            for (int j = 0; j < 4; ++j) {
                _mm512_storeu_si512(to + 16 * Fields<T>::place(at + 4 * j), lanes.v[j]);
            }
            interleave<T, i + 1, at + 16>(to, block);
        } else {
            constexpr int n = small_bytes<T>(i), last = T::block_bytes - 16;
            constexpr int from = at < last ? at : last;
            put_small<T, i, at, 0, n>(to, block.at(from).template load_after<at - from>());
            constexpr int next = [] {
                int next = i;
                for (int left = n; left > 0; ++next) left -= Fields<T>::bytes[next];
                return next;
            }();
            interleave<T, next, at + n>(to, block);
        }
    }
}

// The interleaved block at k of the sixteen rows from `row` on. Rows that aren't interleaved are
// interleaved into `room`.
template <class T>
UNLADEN_INLINE Interleaved interleaved_at(const Job &job, int row, int k, uint8_t *room) {
    const size_t at = size_t(k / T::block_size) * T::block_bytes;
    const Interleaved there = {job.w + row * job.row_bytes + tile_rows * at};
    if constexpr (can_interleave<T>) {
        if (job.interleaved) return there;
        alignas(64) uint8_t spare[tile_rows * T::block_bytes];
        const Slice slice = slice_of<T, tile_rows>(job, row, k, T::block_size, spare);
        interleave<T>(room, {slice.p, slice.stride});
        return {room};
    }
    return there;
}

// Interleaves a block of sixteen rows, with its codes in planes where T has them.
template <class T>
UNLADEN_INLINE void move_block(uint8_t *to, Sixteen block) {
    if constexpr (!has_planes<T>) {
        interleave<T>(to, block);
    } else {
        using A = InLanes<Planes<T>>;
        alignas(64) uint8_t room[tile_rows * T::block_bytes];
        interleave<T>(room, block);
        std::memcpy(to, room, tile_rows * A::first);
        to += tile_rows * A::first;
#pragma GCC unroll 16
        for (int i = 0; i < T::block_size / 4; i += A::n_lines) {
            __m512i lines[A::n_lines], planes[A::n_planes];
#pragma GCC unroll 8
            for (int j = 0; j < A::n_lines; ++j) lines[j] = InLanes<T>::line({room}, i + j);
            A::join(lines, planes);
#pragma GCC unroll 8
            for (int j = 0; j < A::n_planes; ++j, to += 64) _mm512_storeu_si512(to, planes[j]);
        }
    }
}

// Interleaves whole sixteens of rows, one after another.
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
