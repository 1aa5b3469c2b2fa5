// One weight row times C int8 activation rows at the levels below AVX-512: a block's integers are
// decoded once, then multiplied with each column.
#pragma once

#include "backends/cpu/csrc/isa/linear_codes.h"
#include "backends/cpu/csrc/isa/linear_drive.h"

namespace unladen::cpu::UNLADEN_ISA {

#if defined(__AVX2__)

inline __m256i load256(const void *p) {
    return _mm256_loadu_si256(static_cast<const __m256i *>(p));
}

inline int sum_lanes(__m256i v) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

inline float sum_lanes(__m256 v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

// What the products of a block with one column add to.
struct Sum {
    __m256 products = _mm256_setzero_ps();
    float mins = 0.0f;

    // |w| <= 128 and |x| <= 127, so pairs of |w| * (sign(w) x) stay within 16 bits.
    void add(const Codes32 &w, const int8_t *x, float d) {
        const __m256i q = load256(w.q);
        const __m256i pairs =
            _mm256_maddubs_epi16(_mm256_abs_epi8(q), _mm256_sign_epi8(load256(x), q));
        const __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
        products = _mm256_fmadd_ps(_mm256_set1_ps(w.d * d), _mm256_cvtepi32_ps(fours), products);
    }
    // Codes below 64 times |x| <= 127: again 16 bits hold a pair.
    void add(const Codes256 &w, const int8_t *x, float d, __m256i bias) {
        __m256i total = bias;
        const __m256i scales = load256(w.scale);
        const __m256i low = _mm256_permute2x128_si256(scales, scales, 0x00);
        const __m256i high = _mm256_permute2x128_si256(scales, scales, 0x11);
        // Word j * 2 of a half for lanes 0..7, the next for lanes 8..15.
        __m256i pick = _mm256_setr_m128i(_mm_set1_epi16(0x0100), _mm_set1_epi16(0x0302));
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) {
            const __m256i at = _mm256_add_epi8(pick, _mm256_set1_epi8(char(j % 4 * 4)));
            const __m256i scale = _mm256_shuffle_epi8(j < 4 ? low : high, at);
            const __m256i pairs = _mm256_maddubs_epi16(load256(w.q + 32 * j), load256(x + 32 * j));
            total = _mm256_add_epi32(total, _mm256_madd_epi16(pairs, scale));
        }
        products = _mm256_fmadd_ps(_mm256_set1_ps(w.d * d), _mm256_cvtepi32_ps(total), products);
    }
    float total() const { return sum_lanes(products) + mins; }
};

// sum of a[i] * minus[i] for i < 16, in eight parts.
using Sixteen = __m256i;
inline Sixteen dot16(const int16_t *a, const int16_t *minus) {
    return _mm256_madd_epi16(load256(a), load256(minus));
}
inline Sixteen shift_left(Sixteen v, int n) { return _mm256_slli_epi32(v, n); }
inline Sixteen none() { return _mm256_setzero_si256(); }

#else

struct Sum {
    float products = 0.0f, mins = 0.0f;

    void add(const Codes32 &w, const int8_t *x, float d) {
        int total = 0;
        for (int i = 0; i < 32; ++i) total += w.q[i] * x[i];
        products += w.d * d * float(total);
    }
    void add(const Codes256 &w, const int8_t *x, float d, int bias) {
        int total = bias;
        for (int s = 0; s < 16; ++s) {
            int part = 0;
            for (int i = 16 * s; i < 16 * s + 16; ++i) part += w.q[i] * x[i];
            total += part * w.scale[s];
        }
        products += w.d * d * float(total);
    }
    float total() const { return products + mins; }
};

using Sixteen = int;
inline Sixteen dot16(const int16_t *a, const int16_t *minus) {
    int total = 0;
    for (int i = 0; i < 16; ++i) total += a[i] * minus[i];
    return total;
}
inline Sixteen shift_left(Sixteen v, int n) { return v * (1 << n); }
inline Sixteen none() { return 0; }
inline int sum_lanes(Sixteen v) { return v; }

#endif

template <class T>
struct Int8Of32 {
    using Row = Row32;

    template <int C>
    static void dot(float *out, const uint8_t *row, int n_cols, const Row *x) {
        Sum sum[C];
        for (int b = 0; b < n_cols / 32; ++b, row += T::block_bytes) {
            Codes32 w;
            codes_of(w, row, T{});
            for (int c = 0; c < C; ++c) {
                sum[c].add(w, x[c].q + 32 * b, x[c].d[b]);
                if constexpr (has_min<T>) sum[c].mins += w.m * x[c].sum[b];
            }
        }
        for (int c = 0; c < C; ++c) out[c] = sum[c].total();
    }
};

template <class T>
struct Int8Of256 {
    using Row = Row256;

    template <int C>
    static void dot(float *out, const uint8_t *row, int n_cols, const Row *x) {
        Sum sum[C];
        for (int b = 0; b < n_cols / 256; ++b, row += T::block_bytes) {
            Codes256 w;
            codes_of(w, row, T{});
            for (int c = 0; c < C; ++c) {
                const int16_t *minus = x[c].minus + 16 * b;
                Sixteen bias = none();
                if constexpr (bias_log2<T> > 0) {
                    bias = shift_left(dot16(w.scale, minus), bias_log2<T>);
                }
                sum[c].add(w, x[c].q + 256 * b, x[c].d[b], bias);
                if constexpr (has_min<T>) {
                    const int mins = sum_lanes(dot16(w.min, minus));
                    sum[c].mins += w.dmin * x[c].d[b] * float(mins);
                }
            }
        }
        for (int c = 0; c < C; ++c) out[c] = sum[c].total();
    }
};

template <class Kernel>
void run_int8(const Job &job, int) {
    run_rows<Kernel>(job);
}

}  // namespace unladen::cpu::UNLADEN_ISA
