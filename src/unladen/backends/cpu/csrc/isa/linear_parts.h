// Rows of an output head in two parts: every code's five highest bits, then the rest of all. By
// the first part alone most rows can be told not to have the largest product: what is read less
// for that is 35 % of Q8_0 and 15 % of Q6_K. Both parts together give bit for bit the sums of rows
// that lie otherwise.
#pragma once

#include "backends/cpu/csrc/isa/linear_across32.h"
#include "backends/cpu/csrc/isa/linear_planes.h"

namespace unladen::cpu::UNLADEN_ISA {

// How many bytes of a block of T are its second part; formats without aren't divided.
template <class T>
struct Rest;
template <>
struct Rest<Q8_0> {
    static constexpr int bytes = 12;
};
template <>
struct Rest<Q6_K> {
    static constexpr int bytes = 32;
};

// Blocks of T as far as their first part goes, which stands for codes in the middle of those that
// it could belong to; and both parts.
template <class T>
struct Coarse {
    static constexpr int block_size = T::block_size;
    static constexpr int block_bytes = T::block_bytes - Rest<T>::bytes;
};
template <class T>
struct Whole : Coarse<T> {
    static constexpr int rest_bytes = Rest<T>::bytes;
};

// A block of which `rest` is the second part.
struct InParts : Interleaved {
    const uint8_t *rest;
};
template <class T>
struct BlockIn<Whole<T>> {
    using type = InParts;
};
template <class T>
UNLADEN_INLINE void skip_blocks(InParts &w, int n) {
    w.p += size_t(n) * tile_rows * T::block_bytes;
    w.rest += size_t(n) * tile_rows * T::rest_bytes;
}
template <class T>
UNLADEN_INLINE void skip_codes(InParts &w, int n) {
    w.p += n;
    w.rest += n / Across<T>::n_planes * Across<T>::n_rest;
}
template <class T>
    requires requires { T::rest_bytes; }
UNLADEN_INLINE InParts interleaved_at(const Job &job, int row, int k, uint8_t *) {
    const size_t rest_row_bytes = size_t(job.n_cols / T::block_size) * T::rest_bytes;
    InParts w = {{job.w + row * job.row_bytes}, job.rest + row * rest_row_bytes};
    skip_blocks<T>(w, k / T::block_size);
    return w;
}

// Codes are four times as large.
template <class A>
struct AcrossQ6KParts : AcrossQ6KHeader<A>, FiveBits<18, 3> {
    static constexpr int times(int) { return 4; }
};
template <>
struct Across<Coarse<Q6_K>> : AcrossQ6KParts<Across<Coarse<Q6_K>>> {
    static constexpr int lacks = 2;
};
// The lowest bits of eight lines, one above the other.
template <>
struct Across<Whole<Q6_K>> : AcrossQ6KParts<Across<Whole<Q6_K>>> {
    static constexpr int n_rest = 1;
    static UNLADEN_INLINE __m512i line(InParts w, int i) {
        const __m512i low = shifted(load512(w.rest + i / 8 * 64), i % 8, 1, 2);
        return either(FiveBits::line(w, i), low);
    }
    static UNLADEN_INLINE __m512i code(Interleaved block, int i) {
        return _mm512_slli_epi32(Across<Q6_K>::line(block, i), 2);
    }
    static UNLADEN_INLINE void join_rest(const __m512i (&q)[8], __m512i (&rest)[1]) {
        rest[0] = _mm512_setzero_si512();
        for (int j = 0; j < 8; ++j) rest[0] = with_bits(rest[0], q[j], 2, 1, j);
    }
};

struct AcrossQ80Parts : FiveBits<2, 3> {
    static constexpr int bias = 128;
    static UNLADEN_INLINE __m512 scale(Interleaved w) { return w.half(0); }
};
template <>
struct Across<Coarse<Q8_0>> : AcrossQ80Parts {
    static constexpr int lacks = 4;
};
// The three lowest bits lie as Q3_K's codes do.
template <>
struct Across<Whole<Q8_0>> : AcrossQ80Parts {
    static constexpr int n_rest = 3;
    static UNLADEN_INLINE __m512i line(InParts w, int i) {
        const auto plane = [=](int j) __attribute__((always_inline)) {
            return load512(w.rest + 64 * j);
        };
        return either(FiveBits::line(w, i), ThreePlanes::line(plane, i));
    }
    static UNLADEN_INLINE __m512i code(Interleaved block, int i) {
        return Across<Q8_0>::line(block, i);
    }
    static UNLADEN_INLINE void join_rest(const __m512i (&q)[8], __m512i (&rest)[3]) {
        __m512i low[8];
        for (int j = 0; j < 8; ++j) low[j] = masked(q[j], 0x07);
        ThreePlanes::join(low, rest);
    }
};

// A block of sixteen rows.
template <class T>
UNLADEN_INLINE void divide_block(uint8_t *to, uint8_t *rest, Sixteen block) {
    using A = Across<Whole<T>>;
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

// Whole sixteens of rows: first parts one after another, and the second ones.
template <class T>
void divide_rows(uint8_t *to, uint8_t *rest, const uint8_t *w, int n_rows, int n_cols) {
    const size_t row_bytes = size_t(n_cols / T::block_size) * T::block_bytes;
    for (int row = 0; row < n_rows; row += tile_rows, w += tile_rows * row_bytes) {
        for (size_t at = 0; at < row_bytes; at += T::block_bytes) {
            divide_block<T>(to, rest, {w + at, row_bytes});
            to += tile_rows * Coarse<T>::block_bytes;
            rest += tile_rows * Rest<T>::bytes;
        }
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
