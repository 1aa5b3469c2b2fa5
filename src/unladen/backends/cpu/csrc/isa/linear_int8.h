// One weight row times C int8 activation rows at the levels below AVX-512.
#pragma once

#include "backends/cpu/csrc/isa/linear_codes_grid.h"
#include "backends/cpu/csrc/isa/linear_drive.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class T>
struct Int8Of32 {
    using Row = Row32;

    template <int C>
    static void dot(float *out, const uint8_t *row, int n_cols, const Row *x) {
        Total total[C];
        float mins[C] = {};
        for (int b = 0; b < n_cols / 32; ++b, row += T::block_bytes) {
            if (b % 2 == 0) ask_ahead(row, 2 * T::block_bytes);
            const Bytes32 q = signed_codes<T>(row);
            const float d = Codes<T>::d(row);
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                Sums sums = Sums::zero();
                sums.add_products(q, x[c].q + 32 * b);
                total[c].add(d * x[c].d[b], sums);
                if constexpr (Codes<T>::has_min) mins[c] += Codes<T>::m(row) * x[c].sum[b];
            }
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) out[c] = total[c].sum() + mins[c];
    }
};

template <class T>
struct Int8Of256 {
    using Row = Row256;

    template <int C>
    static void dot(float *out, const uint8_t *row, int n_cols, const Row *x) {
        Total total[C], mins[C];
        for (int b = 0; b < n_cols / 256; ++b, row += T::block_bytes) {
            ask_ahead(row, T::block_bytes);
            const Codes<T> w(row);
            const Words16 words = w.scales();
            const Scales scales(words);
            Sums sums[C];
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                sums[c] = Sums::zero();
                if constexpr (Codes<T>::bias > 0) {
                    sums[c] = words.dot(x[c].minus + 16 * b).times(Codes<T>::bias);
                }
            }
#pragma GCC unroll 8
            for (int s = 0; s < 8; ++s) {
                const Bytes32 codes = w.codes(s);
#pragma GCC unroll 4
                for (int c = 0; c < C; ++c) {
                    const int8_t *q = x[c].q + 256 * b + 32 * s;
                    scales.template add_products<Codes<T>::is_signed>(sums[c], codes, q, s);
                }
            }
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                total[c].add(w.d() * x[c].d[b], sums[c]);
                if constexpr (Codes<T>::has_min) {
                    mins[c].add(w.dmin() * x[c].d[b], w.mins().dot(x[c].minus + 16 * b));
                }
            }
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) out[c] = total[c].sum() + mins[c].sum();
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
