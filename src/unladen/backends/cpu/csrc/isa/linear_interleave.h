// Sixteen weight rows at once, one in each 32-bit lane of AVX-512 registers: how their blocks lie
// interleaved, and how they come there. Layouts of blocks: the headers in quants/.
//
// A block of sixteen rows takes as many bytes as it does apart, in the order in which it is read,
// for what the hardware asks memory for ahead follows addresses: with d at its end Q6_K came from
// memory at 0.92 of the speed. What stands at byte a of a block stands at 16 place(a): four bytes
// of all rows, then the next; of smaller fields each row's after another's. Blocks follow one
// another, then the next sixteen rows.
#pragma once

#include "backends/cpu/csrc/isa/linear_drive.h"
#include "backends/cpu/csrc/isa/linear_wide.h"

namespace unladen::cpu::UNLADEN_ISA {

constexpr int tile_rows = interleaved_rows;

// The first n of sixteen lanes.
UNLADEN_INLINE __mmask16 mask_of(int n) {
    return n >= tile_rows ? __mmask16(-1) : n > 0 ? __mmask16((1u << n) - 1) : __mmask16(0);
}

// Lane r of v[j]: bytes 4 j ... 4 j + 3 of what was read from row r.
struct Lanes {
    __m512i v[4];
};

// The same place of sixteen rows; row r lies at p + r * stride.
struct Sixteen {
    const uint8_t *p;
    size_t stride;

    UNLADEN_INLINE Sixteen at(size_t offset) const { return {p + offset, stride}; }
    // Rows r, r + 4, r + 8 and r + 12, 16 bytes of each.
    UNLADEN_INLINE __m512i every_fourth(int r) const {
        const uint8_t *first = p + r * stride;
        __m512i v = _mm512_castsi128_si512(load128(first));
        v = _mm512_inserti32x4(v, load128(first + 4 * stride), 1);
        v = _mm512_inserti32x4(v, load128(first + 8 * stride), 2);
        return _mm512_inserti32x4(v, load128(first + 12 * stride), 3);
    }
    // 16 bytes of every row.
    UNLADEN_INLINE Lanes load() const {
        return transposed(every_fourth(0), every_fourth(1), every_fourth(2), every_fourth(3));
    }
    // 16 bytes of every row but for the first `skipped`.
    template <int skipped>
    UNLADEN_INLINE Lanes load_after() const {
        if constexpr (skipped == 0) return load();
        return transposed(_mm512_bsrli_epi128(every_fourth(0), skipped),
                          _mm512_bsrli_epi128(every_fourth(1), skipped),
                          _mm512_bsrli_epi128(every_fourth(2), skipped),
                          _mm512_bsrli_epi128(every_fourth(3), skipped));
    }
    // Lanes 4 i ... 4 i + 3 from the 128-bit lanes i of rows.
    static UNLADEN_INLINE Lanes transposed(__m512i a, __m512i b, __m512i c, __m512i d) {
        const __m512i ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d);
        const __m512i ab2 = _mm512_unpackhi_epi32(a, b), cd2 = _mm512_unpackhi_epi32(c, d);
        return {{_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd),
                 _mm512_unpacklo_epi64(ab2, cd2), _mm512_unpackhi_epi64(ab2, cd2)}};
    }
};

// A block of sixteen rows, interleaved. Places are those in one row's block, as place() has them.
struct Interleaved {
    const uint8_t *p;

    // Bytes i ... i + 3 of each row.
    UNLADEN_INLINE __m512i four(int i) const { return load512(p + 16 * i); }
    // The float16 at i.
    UNLADEN_INLINE __m512 half(int i) const { return _mm512_cvtph_ps(load256(p + 16 * i)); }
    UNLADEN_INLINE __m512i word(int i) const { return _mm512_cvtepu16_epi32(load256(p + 16 * i)); }
    UNLADEN_INLINE __m512i byte(int i) const { return _mm512_cvtepu8_epi32(load128(p + 16 * i)); }
};

// A block of T in sixteen rows.
template <class T>
struct BlockIn {
    using type = Interleaved;
};
template <class T>
using Block = typename BlockIn<T>::type;

// Moves w on by n blocks of T, or by n bytes of its codes.
template <class T>
UNLADEN_INLINE void skip_blocks(Interleaved &w, int n) {
    w.p += size_t(n) * tile_rows * T::block_bytes;
}
template <class T>
UNLADEN_INLINE void skip_codes(Interleaved &w, int n) {
    w.p += n;
}

// The bytes of each field of a block, in order: 1, 2, 4 or 16; and where the four bytes from a on
// stand, or fewer of a smaller field. Formats without are never interleaved.
template <int... sizes>
struct FieldSizes {
    static constexpr int n = sizeof...(sizes), bytes[] = {sizes...};
    static constexpr int place(int a) { return a; }
};
template <class T>
struct Fields;
template <>
struct Fields<Q8_0> : FieldSizes<2, 16, 16> {};
template <>
struct Fields<Q4_0> : FieldSizes<2, 16> {};
template <>
struct Fields<Q4_1> : FieldSizes<2, 2, 16> {};
template <>
struct Fields<Q5_0> : FieldSizes<2, 4, 16> {};
template <>
struct Fields<Q5_1> : FieldSizes<2, 2, 4, 16> {};
template <>
struct Fields<IQ4_NL> : FieldSizes<2, 16> {};
template <>
struct Fields<MXFP4> : FieldSizes<1, 16> {};
template <>
struct Fields<Q2_K> : FieldSizes<16, 16, 16, 16, 16, 2, 2> {
    // d and dmin; the rest.
    static constexpr int place(int a) { return a >= 80 ? a - 80 : a + 4; }
};
template <>
struct Fields<Q3_K> : FieldSizes<16, 16, 16, 16, 16, 16, 4, 4, 4, 2> {
    // d; scales; low bits beside the high ones; low bits.
    static constexpr int place(int a) {
        if (a >= 96) return a < 108 ? a - 94 : a - 108;
        return 14 + (a < 32 ? 2 * a + 4 : a < 64 ? 2 * (a - 32) : a);
    }
};
template <>
struct Fields<Q4_K> : FieldSizes<2, 2, 4, 4, 4, 16, 16, 16, 16, 16, 16, 16, 16> {};
template <>
struct Fields<Q5_K> : FieldSizes<2, 2, 4, 4, 4, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16> {
    // Low bits beside the high ones.
    static constexpr int place(int a) {
        if (a < 16 || a >= 80) return a;
        return 16 + (a < 48 ? 2 * (a - 16) + 4 : 2 * (a - 48));
    }
};
template <>
struct Fields<Q6_K> : FieldSizes<16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 2> {
    // d; scales; of each half low bits beside the high ones, and low bits.
    static constexpr int place(int a) {
        if (a >= 192) return a < 208 ? a - 190 : a - 208;
        if (a >= 128) return 18 + (a - 128) / 32 * 96 + a % 32 * 2 + 4;
        return 18 + a / 64 * 96 + (a % 64 < 32 ? a % 64 * 2 : a % 64 + 32);
    }
};
template <>
struct Fields<IQ4_XS> : FieldSizes<2, 2, 4, 16, 16, 16, 16, 16, 16, 16, 16> {};

template <>
struct Fields<TQ2_0> : FieldSizes<16, 16, 16, 16, 2> {
    // d; the rest.
    static constexpr int place(int a) { return a >= 64 ? a - 64 : a + 2; }
};

template <class T>
constexpr bool can_interleave = requires { Fields<T>::n; };

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

// Fields i and on, which stand from byte `at` on, of a block of sixteen rows.
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

// The block at k of the sixteen rows from `row` on; `room` for it where they aren't interleaved.
template <class T>
UNLADEN_INLINE Interleaved interleaved_at(const Job &job, int row, int k, uint8_t *room) {
    const size_t at = size_t(k / T::block_size) * T::block_bytes;
    const Interleaved there = {job.w + row * job.row_bytes + tile_rows * at};
    if constexpr (can_interleave<T>) {
        if (job.interleaved) return there;
        alignas(64) uint8_t spare[tile_rows * T::block_bytes];
        const Part part = part_of<T, tile_rows>(job, row, k, T::block_size, spare);
        interleave<T>(room, {part.p, part.stride});
        return {room};
    }
    return there;
}

UNLADEN_INLINE __m512i masked(__m512i v, int byte) {
    return _mm512_and_si512(v, all_bytes(byte));
}
UNLADEN_INLINE __m512i either(__m512i a, __m512i b) { return _mm512_or_si512(a, b); }
UNLADEN_INLINE __m512i down(__m512i v, int n) { return _mm512_srli_epi32(v, unsigned(n)); }
// n bits from bit `from` of each byte, at bit `to`. Beside products shifts cost less than GFNI's
// instruction, which wants the units that multiply: with eight columns 0.82 of the time for Q6_K.
UNLADEN_INLINE __m512i shifted(__m512i v, int from, int n, int to) {
    const __m512i there = from < to ? _mm512_slli_epi32(v, unsigned(to - from))
                                    : down(v, from - to);
    return masked(there, ((1 << n) - 1) << to);
}
// n bits of `v` from bit `from` on, at bit `to`, and `other`.
UNLADEN_INLINE __m512i with_bits(__m512i other, __m512i v, int from, int n, int to) {
    return either(other, shifted(v, from, n, to));
}
UNLADEN_INLINE __m512i nibbles(__m512i v, bool high) { return shifted(v, high ? 4 : 0, 4, 0); }

// Across<T>: a block of T in sixteen rows. line(w, i): codes 4 i ... 4 i + 3 of each row.
template <class T>
struct Across;

// By how much codes stand for more than themselves, where they do.
template <class A>
constexpr int lacking() {
    if constexpr (requires { A::lacks; }) return A::lacks;
    return 0;
}

}  // namespace unladen::cpu::UNLADEN_ISA
