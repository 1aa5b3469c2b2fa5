// DealtRows<T>: tiles of formats that are decoded row by row, as for one activation row, and then
// dealt into lanes.
#pragma once

#include "backends/cpu/csrc/isa/formats/codes512.h"
#include "backends/cpu/csrc/isa/products/tiles512.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class T>
struct DealtRows {
    using W = Codes512<T>;
    static constexpr int sub = W::sub == 16 ? 16 : 32;
    static constexpr int n_quarters = 4;
    // Tiles have no separate signs, so signed codes get a bias.
    static constexpr bool is_signed = requires(const W &w) { w.template negative<0>(); };
    static constexpr int bias = is_signed ? 64 : W::bias;

    // Writes the codes of four rows. Not inlined, since it is large and called in many places.
    static __attribute__((noinline)) void codes(Tile256 &tile, Sixteen w, int quarter) {
        __m512i q[4][4];
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) {
            const W row(w.p + (4 * quarter + r) * w.stride);
            q[0][r] = unsigned_codes<0>(row), q[1][r] = unsigned_codes<1>(row);
            q[2][r] = unsigned_codes<2>(row), q[3][r] = unsigned_codes<3>(row);
        }
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
            const Lanes dealt = Sixteen::transposed(q[j][0], q[j][1], q[j][2], q[j][3]);
            Line *to = tile.q + 4 * j;
#pragma GCC unroll 4
            for (int k = 0; k < 4; ++k) put_quarter(to + k, quarter, dealt.v[k]);
        }
    }

    static __attribute__((noinline)) void scales(Tile256 &tile, Sixteen w) {
        alignas(64) int16_t words[16][16];
        alignas(64) float ds[16];
        for (int r = 0; r < 16; ++r) {
            const W row(w.p + r * w.stride);
            _mm256_store_si256(reinterpret_cast<__m256i *>(words[r]), row.scales());
            ds[r] = _mm_cvtss_f32(row.d());
        }
        const __m512 d = _mm512_load_ps(ds);
        for (int half = 0; half < 2; ++half) {
            const auto *p = reinterpret_cast<const uint8_t *>(words[0] + 8 * half);
            const Lanes s = Sixteen{p, 32}.load();
            for (int i = 0; i < 4; ++i) put_pair(tile, d, 4 * half + i, s.v[i]);
            if constexpr (sub == 32) {
                for (int i = 0; i < 4; i += 2) {
                    const __m512i second = _mm512_slli_epi32(s.v[i + 1], 16);
                    const __m512i pairs = _mm512_mask_mov_epi16(s.v[i], 0xaaaaaaaa, second);
                    tile.put_min_pairs(2 * half + i / 2, pairs);
                }
            }
        }
        tile.put_bias(d, bias);
    }

private:
    template <int j>
    static UNLADEN_INLINE __m512i unsigned_codes(const W &w) {
        const __m512i q = w.template codes<j>(), zero = all_bytes(bias);
        if constexpr (is_signed) {
            const __m512i positive = _mm512_add_epi8(zero, q);
            return _mm512_mask_sub_epi8(positive, w.template negative<j>(), zero, q);
        }
        return q;
    }
    // Four rows' share of every sixteenth line.
    static UNLADEN_INLINE void put_quarter(Line *to, int quarter, __m512i q) {
        const auto put = [=](int i, __m128i lane) {
            _mm_store_si128(reinterpret_cast<__m128i *>(to[16 * i]) + quarter, lane);
        };
        put(0, _mm512_castsi512_si128(q)), put(1, _mm512_extracti32x4_epi32(q, 1));
        put(2, _mm512_extracti32x4_epi32(q, 2)), put(3, _mm512_extracti32x4_epi32(q, 3));
    }
    // Words 2 p and 2 p + 1 of the scales.
    static UNLADEN_INLINE void put_pair(Tile256 &tile, __m512 d, int p, __m512i words) {
        const __m512i second = _mm512_srai_epi32(words, 16);
        if constexpr (sub == 32) {
            tile.put_scale(p, d, second);
        } else {
            tile.put_scale(2 * p, d, _mm512_srai_epi32(_mm512_slli_epi32(words, 16), 16));
            tile.put_scale(2 * p + 1, d, second);
            tile.put_min_pairs(p, words);
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
