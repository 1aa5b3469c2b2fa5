// Across<T> of formats that are decoded row by row, as for one activation row, and dealt into lanes
// afterwards.
#pragma once

#include "backends/cpu/csrc/isa/linear_across256.h"
#include "backends/cpu/csrc/isa/linear_wide_grid.h"
#include "backends/cpu/csrc/isa/linear_wide_ternary.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class T>
struct Across {
    using W = Wide<T>;
    static constexpr int sub = W::sub == 16 ? 16 : 32;
    static constexpr int n_parts = 4;
    // Tiles have no signs.
    static constexpr bool is_signed = requires(const W &w) { w.template negative<0>(); };
    static constexpr int bias = is_signed ? 64 : W::bias;

    static UNLADEN_INLINE void codes(Tile256 &tile, Sixteen w, int part) {
        switch (part) {
            case 0: return codes<0>(tile, w);
            case 1: return codes<1>(tile, w);
            case 2: return codes<2>(tile, w);
            default: return codes<3>(tile, w);
        }
    }
    // Sixteens j, j + 4, j + 8 and j + 12.
    template <int j>
    static __attribute__((noinline)) void codes(Tile256 &tile, Sixteen w) {
        alignas(64) uint8_t rows[16][64];
        for (int r = 0; r < 16; ++r) {
            const W row(w.p + r * w.stride);
            __m512i q = row.template codes<j>();
            if constexpr (is_signed) {
                const __m512i zero = all_bytes(bias);
                q = _mm512_mask_sub_epi8(_mm512_add_epi8(zero, q), row.template negative<j>(), zero,
                                         q);
            }
            _mm512_store_si512(rows[r], q);
        }
        for (int i = 0; i < 4; ++i) {
            const Lanes q = Sixteen{rows[0] + 16 * i, 64}.load();
            Line *to = tile.q + 4 * (j + 4 * i);
            for (int k = 0; k < 4; ++k) put(to[k], q.v[k]);
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

template <>
struct Across<TQ2_0> {
    static constexpr int sub = 32;
    static constexpr int n_parts = 4;
    static UNLADEN_INLINE void codes(Tile256 &tile, Sixteen w, int part) {
        put_two_bits(tile, w.at(16 * part), part);
    }
    static UNLADEN_INLINE void scales(Tile256 &tile, Sixteen w) {
        const __m512 d = high_halves(w.at(50).load().v[3]);
        for (int s = 0; s < 8; ++s) tile.put_scale(s, d, _mm512_set1_epi32(1));
        for (int p = 0; p < 4; ++p) tile.put_min_pairs(p, _mm512_set1_epi16(1));
        tile.put_bias(d, 1);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
