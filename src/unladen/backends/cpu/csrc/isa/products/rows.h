// One weight row times C int8 activation rows at the levels below AVX-512.
#pragma once

#include "backends/cpu/csrc/isa/formats/codes.h"
#include "backends/cpu/csrc/isa/products/loops.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class T>
struct Int8Of32 {
    using Row = Row32;
    static constexpr int n_each = T::block_size / 32;

    template <int C>
    static void dot(float *out, const uint8_t *row, int n_cols, const Row *x, auto ahead) {
        Total total[C];
        float mins[C] = {};
        for (int b = 0; b < n_cols / 32; ++b) {
            if (b % (2 * n_each) == 0) ahead.ask(row, 2 * T::block_bytes);
            const Bytes32 q = signed_codes<T>(row, b % n_each);
            const float d = Codes<T>::d(row);
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                Sums sums = Sums::zero();
                sums.add_products(q, x[c].q + 32 * b);
                total[c].add(d * x[c].d[b], sums);
                if constexpr (Codes<T>::has_min) mins[c] += Codes<T>::m(row) * x[c].sum[b];
            }
            if (b % n_each == n_each - 1) row += T::block_bytes;
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) out[c] = total[c].sum() + mins[c];
    }
};

// Whether blocks have scales for 16 or 32 of their weights.
template <class T>
constexpr bool is_scaled = !requires { Codes<T>::is_unscaled; };

template <class T>
struct Int8Of256 {
    using Row = Row256;
    using W = Codes<T>;
    static constexpr int bytes = T::block_bytes;

    template <int C>
    static void dot(float *out, const uint8_t *row, int n_cols, const Row *x, auto ahead) {
        Total total[C], mins[C];
        const int n_blocks = n_cols / 256;
        int b = 0;
        if constexpr (requires { W::is_stored; }) {
            // Four blocks at a time, since a load has to wait for a store just before it.
            for (; b + 4 <= n_blocks; b += 4, row += 4 * bytes) {
                ahead.ask(row, 4 * bytes);
                const W w[4] = {W(row), W(row + bytes), W(row + 2 * bytes), W(row + 3 * bytes)};
#pragma GCC unroll 1
                for (int i = 0; i < 4; ++i) add(total, mins, w[i], x, b + i);
            }
        }
        for (; b < n_blocks; ++b, row += bytes) {
            ahead.ask(row, bytes);
            add(total, mins, W(row), x, b);
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) out[c] = total[c].sum() + mins[c].sum();
    }

    // Adds block b.
    template <int C>
    static UNLADEN_INLINE void add(Total (&total)[C], Total (&mins)[C], const W &w, const Row *x,
                                   int b) {
        const Words16 words = w.scales();
        const Scales scales(words);
        Sums sums[C];
        SmallSums small[C];
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
            sums[c] = Sums::zero();
            if constexpr (W::bias > 0) {
                sums[c] = words.dot(x[c].minus + 16 * b).times(W::bias);
            }
        }
#pragma GCC unroll 8
        for (int s = 0; s < 8; ++s) {
            const auto codes = w.codes(s);
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                const int8_t *q = x[c].q + 256 * b + 32 * s;
                if constexpr (is_scaled<T>)
                    scales.template add_products<W::is_signed>(sums[c], codes, q, s);
                else
                    small[c].add_products(codes, q);
            }
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
            if constexpr (!is_scaled<T>) small[c].add_to(sums[c]);
            total[c].add(w.d() * x[c].d[b], sums[c]);
            if constexpr (W::has_min) {
                mins[c].add(w.dmin() * x[c].d[b], w.mins().dot(x[c].minus + 16 * b));
            }
        }
    }
};

// The fastest kernel for rows of T one by one.
template <class T>
struct FastestRowOf {
    using Kernel = Int8Of256<T>;
};
template <class T>
    requires requires { sizeof(RowKernel<T>); }
struct FastestRowOf<T> {
    using Kernel = RowKernel<T>;
};
template <class T>
using FastestRow = typename FastestRowOf<T>::Kernel;

}  // namespace unladen::cpu::UNLADEN_ISA
