// Products of divided rows, one by one and in tiles: see divided_avx2.h.
#pragma once

#include "backends/cpu/csrc/isa/products/dealt.h"
#include "backends/cpu/csrc/isa/products/rows.h"
#include "backends/cpu/csrc/isa/products/rows32_avx2.h"
#include "backends/cpu/csrc/isa/screening/divided_avx2.h"

namespace unladen::cpu::UNLADEN_ISA {

// A row of U, from a block of 256 on.
template <class U>
struct CoarseAndRest {
    const uint8_t *p, *rest;

    static UNLADEN_INLINE CoarseAndRest at(const Job &job, int n) {
        return {job.w + n * job.row_bytes,
                job.rest + size_t(n) * (job.n_cols / 256 * U::rest_bytes)};
    }
    UNLADEN_INLINE CoarseAndRest block(int i) const {
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

// Products of one weight row with C activation rows.
template <class U>
struct Row32Divided {
    using WeightRow = CoarseAndRest<U>;
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
struct Row256Divided {
    using WeightRow = CoarseAndRest<U>;
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

// Divides rows. The coarse rows follow one another, and so do their rests.
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

// Deals eight rows into lines. line(s, i) is the address of the line for codes 4 i to 4 i + 3 of
// run s of 32 codes. Dealt planes look like planes of eight rows, and each plane has four codes of
// each row.
template <class T, class Line>
void deal_planes(Line line, DividedRows rows) {
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

// For run_tiles. The rest of the next rows is prefetched meanwhile. The number of divided rows is a
// multiple of sixteen.
template <class T>
struct DealtDivided : Choose<T::block_size == 32, Dealt32<T>, Dealt256<T>> {
    static DividedRows slice(const Job &job, int n, int k) {
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
    static void unpack(typename DealtDivided::Tile &tile, DividedRows rows, int) {
        for (int half = 0; half < 2; ++half) {
            const DividedRows eight = rows.from(8 * half);
            deal_planes<T>([&](int s, int i) { return line_of(tile, s, i) + 32 * half; }, eight);
            Divided<T>::deal_header(tile, half, eight);
        }
        if constexpr (T::block_size == 32 && flips<T>) {
            for (auto &block : tile.block) block.split(block.q);
        }
    }

private:
    static uint8_t *line_of(Tile256<T> &tile, int s, int i) { return tile.q[8 * s + i]; }
    static uint8_t *line_of(typename Dealt32<T>::Tile &tile, int s, int i) {
        return tile.block[s].q[i];
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
