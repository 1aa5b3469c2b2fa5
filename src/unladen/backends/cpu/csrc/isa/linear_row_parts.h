// Rows of an output head in two parts, as linear_parts.h has them, but one by one: of each 256
// weights what stands beside the codes and planes of the codes' five highest bits; then the rest of
// all. Both parts together give bit for bit the sums of rows that lie otherwise.
#pragma once

#include "backends/cpu/csrc/isa/linear_deal.h"
#include "backends/cpu/csrc/isa/linear_int8.h"
#include "backends/cpu/csrc/isa/linear_plane_bits.h"
#include "backends/cpu/csrc/isa/linear_row32_avx2.h"

namespace unladen::cpu::UNLADEN_ISA {

// How many bytes of 256 weights of T are their second part.
template <class T>
constexpr int rest_bytes_of = 0;
template <>
constexpr int rest_bytes_of<Q8_0> = 96;
template <>
constexpr int rest_bytes_of<Q6_K> = 32;

// The first parts, whose codes stand for the middle of what they may be; and both.
template <class T>
struct Coarse {
    static constexpr int block_size = 256, whole_bytes = 256 / T::block_size * T::block_bytes;
    static constexpr int rest_bytes = rest_bytes_of<T>, block_bytes = whole_bytes - rest_bytes;
};
template <class T>
struct Whole : Coarse<T> {};
template <class U>
constexpr bool is_coarse = false;
template <class T>
constexpr bool is_coarse<Coarse<T>> = true;

// A row of U, from a block of 256 on.
template <class U>
struct InParts {
    const uint8_t *p, *rest;

    static UNLADEN_INLINE InParts at(const Job &job, int n) {
        return {job.w + n * job.row_bytes,
                job.rest + size_t(n) * (job.n_cols / 256 * U::rest_bytes)};
    }
    UNLADEN_INLINE InParts block(int i) const {
        return {p + i * U::block_bytes, rest + i * U::rest_bytes};
    }
    UNLADEN_INLINE void ask(auto ahead) const {
        ahead.ask(p, U::block_bytes);
        if constexpr (!is_coarse<U>) {
            const ptrdiff_t far = ahead.far * U::rest_bytes / U::block_bytes;
            ask_lines(rest + far, (U::rest_bytes + 63) / 64, ahead.into_l1());
        }
    }
};

// Planes of 32 bytes from p on.
struct RowPlanes {
    const uint8_t *p;
    UNLADEN_INLINE Bytes32 operator()(int i) const { return Bytes32::load(p + 32 * i); }
};

// The five highest bits of 32 codes.
UNLADEN_INLINE Bytes32 highest_five(const uint8_t *p, int s) {
    return FivePlanes<0>::line(RowPlanes{p}, s);
}

// Both parts of 32 codes, of planes at p and at `rest`.
UNLADEN_INLINE Bytes32 whole_codes(Q8_0, const uint8_t *p, const uint8_t *rest, int s) {
    return highest_five(p, s).up(3).plus(ThreePlanes::line(RowPlanes{rest}, s)).less(128);
}
UNLADEN_INLINE Bytes32 whole_codes(Q6_K, const uint8_t *p, const uint8_t *rest, int s) {
    return with_bits(highest_five(p, s).up(1), Bytes32::load(rest), s, 1, 0);
}

// Of Q8_0: the scales stand before the planes. A code is signed, its five bits are those of itself
// plus 128.
constexpr int q8_0_planes = 16;

template <>
struct Codes<Coarse<Q8_0>> {
    static constexpr bool is_signed = false, has_min = false;
    static constexpr int max_code = 31;
    static constexpr float bias = 15.5f;
};
template <>
struct EightBlocks<Coarse<Q8_0>> {
    const uint8_t *p, *rest;

    UNLADEN_INLINE __m256 scales() const {
        return _mm256_mul_ps(_mm256_cvtph_ps(load128(p)), _mm256_set1_ps(8));
    }
    UNLADEN_INLINE Bytes32 codes(int i) const { return highest_five(p + q8_0_planes, i); }
};

template <>
struct Codes<Whole<Q8_0>> : Codes<Q8_0> {};
template <>
struct EightBlocks<Whole<Q8_0>> {
    const uint8_t *p, *rest;

    UNLADEN_INLINE __m256 scales() const { return _mm256_cvtph_ps(load128(p)); }
    UNLADEN_INLINE Bytes32 codes(int i) const {
        return whole_codes(Q8_0(), p + q8_0_planes, rest, i);
    }
};

// Of Q6_K: scales and d stand behind the planes, as they do behind codes.
struct Q6KParts {
    static constexpr int sub = 16;
    static constexpr bool has_min = false, is_signed = false;
    const uint8_t *p, *rest;
    float d() const { return bits::half(p + 176); }
    Words16 scales() const { return Words16::of_signed(p + 160); }
};
// 2 five + 1/2 - 32, twice as large.
template <>
struct Codes<Coarse<Q6_K>> : Q6KParts {
    static constexpr int bias = 63, max_code = 124;
    float d() const { return 0.5f * Q6KParts::d(); }
    Bytes32 codes(int s) const { return highest_five(p, s).up(2); }
};
template <>
struct Codes<Whole<Q6_K>> : Q6KParts {
    static constexpr int bias = 32, max_code = 63;
    Bytes32 codes(int s) const { return whole_codes(Q6_K(), p, rest, s); }
};

// Products of one weight row with C activation rows.
template <class U>
struct Row32InParts {
    using WeightRow = InParts<U>;
    using Row = Row32;

    template <int C>
    static void dot(float *out, WeightRow row, int n_cols, const Row *x, auto ahead) {
        typename Row32Of<U>::template Eights<C> eights;
        for (int b = 0; b < n_cols / 256; ++b, row = row.block(1)) {
            row.ask(ahead);
            eights.add({row.p, row.rest}, 8 * b, x);
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) out[c] = eights.sum(c) + 0.0f;  // not -0
    }
};
template <class U>
struct Row256InParts {
    using WeightRow = InParts<U>;
    using Row = Row256;

    template <int C>
    static void dot(float *out, WeightRow row, int n_cols, const Row *x, auto ahead) {
        Total total[C], mins[C];
        for (int b = 0; b < n_cols / 256; ++b, row = row.block(1)) {
            row.ask(ahead);
            Int8Of256<U>::add(total, mins, Codes<U>{{row.p, row.rest}}, x, b);
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) out[c] = total[c].sum() + mins[c].sum();
    }
};

// 256 weights' codes as they are divided: unsigned, the five bits from `low_bits` on.
template <class T>
struct Divided;
template <>
struct Divided<Q8_0> {
    static constexpr int low_bits = 3, planes = q8_0_planes, n_rest = 3;

    static void codes(Bytes32 (&q)[8], const uint8_t *w) {
        for (int i = 0; i < 8; ++i) q[i] = Codes<Q8_0>::codes(w + i * Q8_0::block_bytes).less(128);
    }
    static void put_header(uint8_t *to, const uint8_t *w) {
        for (int i = 0; i < 8; ++i) std::memcpy(to + 2 * i, w + i * Q8_0::block_bytes, 2);
    }
    static void join_rest(const Bytes32 (&low)[8], Bytes32 (&rest)[3]) {
        ThreePlanes::join(low, rest);
    }
};
template <>
struct Divided<Q6_K> {
    static constexpr int low_bits = 1, planes = 0, n_rest = 1;

    static void codes(Bytes32 (&q)[8], const uint8_t *w) {
        for (int s = 0; s < 8; ++s) q[s] = Codes<Q6_K>(w).codes(s);
    }
    static void put_header(uint8_t *to, const uint8_t *w) { std::memcpy(to + 160, w + 192, 18); }
    static void join_rest(const Bytes32 (&low)[8], Bytes32 (&rest)[1]) {
        rest[0] = low[0];
        for (int s = 1; s < 8; ++s) rest[0] = with_bits(rest[0], low[s], 0, 1, s);
    }
};

// Rows one after another: their first parts, and the second ones.
template <class T>
void divide_rows(uint8_t *to, uint8_t *rest, const uint8_t *w, int n_rows, int n_cols) {
    using D = Divided<T>;
    const size_t n_blocks = size_t(n_rows) * (n_cols / 256);
    for (size_t b = 0; b < n_blocks; ++b) {
        Bytes32 q[8], high[8], low[8], five[5], others[D::n_rest];
        D::codes(q, w);
        for (int s = 0; s < 8; ++s) {
            high[s] = shifted(q[s], D::low_bits, 5, 0);
            low[s] = shifted(q[s], 0, D::low_bits, 0);
        }
        FivePlanes<0>::join(high, five);
        D::join_rest(low, others);
        D::put_header(to, w);
        for (int i = 0; i < 5; ++i) five[i].store(to + D::planes + 32 * i);
        for (int i = 0; i < D::n_rest; ++i) others[i].store(rest + 32 * i);
        w += Coarse<T>::whole_bytes, to += Coarse<T>::block_bytes, rest += Coarse<T>::rest_bytes;
    }
}

// 256 weights of rows in two parts, of the first row on.
struct PartsOfRows {
    const uint8_t *p, *rest;
    size_t stride, rest_stride;
    PartsOfRows from(int row) const {
        return {p + row * stride, rest + row * rest_stride, stride, rest_stride};
    }
};

// Lines of eight rows; line(s, i): where that of codes 4 i to 4 i + 3 of the 32 number s begins.
// What is dealt of planes looks like planes of eight rows that hold four codes of each of the
// eight.
template <class T, class Line>
void deal_planes(Line line, PartsOfRows rows) {
    alignas(32) uint8_t first[8][160], rest[8][Whole<T>::rest_bytes];
    for (int at = 0; at < 160; at += 32) {
        const uint8_t *plane = rows.p + Divided<T>::planes + at;
        deal_strand(first[0] + at, sizeof first[0], plane, rows.stride);
    }
    for (int at = 0; at < Whole<T>::rest_bytes; at += 32) {
        deal_strand(rest[0] + at, sizeof rest[0], rows.rest + at, rows.rest_stride);
    }
#pragma GCC unroll 8
    for (int s = 0; s < 8; ++s) {
        for (int i = 0; i < 8; ++i) whole_codes(T(), first[i], rest[i], s).store(line(s, i));
    }
}

// For run_tiles; what is read of the next rows' second parts is asked for meanwhile. Rows in parts
// are whole sixteens.
template <class T>
struct DealtParts : Choose<T::block_size == 32, Dealt32<T>, Dealt256<T>> {
    static PartsOfRows part(const Job &job, int n, int k) {
        using U = Whole<T>;
        const size_t rest_stride = size_t(job.n_cols / 256) * U::rest_bytes;
        const uint8_t *rest = job.rest + n * rest_stride;
        constexpr int rest_bytes = Dealt::rows * U::rest_bytes;
        ask_lines(rest + Dealt::n_tiles * Dealt::rows * rest_stride + k / 256 * rest_bytes,
                  rest_bytes / 64, false);
        const size_t b = k / 256;
        return {job.w + n * job.row_bytes + b * U::block_bytes, rest + b * U::rest_bytes,
                job.row_bytes, rest_stride};
    }
    static void unpack(typename DealtParts::Tile &tile, PartsOfRows rows, int) {
        for (int half = 0; half < 2; ++half) put(tile, half, rows.from(8 * half));
        finish(tile);
    }

private:
    static void put(Tile256<Q6_K> &tile, int half, PartsOfRows rows) {
        const auto line = [&](int s, int i) { return tile.q[8 * s + i] + 32 * half; };
        deal_planes<Q6_K>(line, rows);
        Bytes32 scales[8];
        for (int r = 0; r < 8; ++r) {
            scales[r] = Words16::of_signed(rows.from(r).p + 160).bytes();
        }
        deal(tile.scale, half, scales);
        deal_halves(tile.d + 8 * half, rows.p + 176, rows.stride);
    }
    static void finish(Tile256<Q6_K> &) {}

    static void put(typename Dealt32<Q8_0>::Tile &tile, int half, PartsOfRows rows) {
        const auto line = [&](int s, int i) { return tile.block[s].q[i] + 32 * half; };
        deal_planes<Q8_0>(line, rows);
        for (int b = 0; b < 8; ++b) {
            deal_halves(tile.block[b].scale + 8 * half, rows.p + 2 * b, rows.stride);
        }
    }
    static void finish(typename Dealt32<Q8_0>::Tile &tile) {
        for (int b = 0; b < 8; ++b) tile.block[b].split(tile.block[b].q);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
