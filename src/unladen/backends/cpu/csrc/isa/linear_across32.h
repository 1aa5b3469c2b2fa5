// Across<T> for blocks of 32: w = scale * code + min; a bias of the codes is part of the min.
#pragma once

#include "backends/cpu/csrc/isa/linear_across.h"

namespace unladen::cpu::UNLADEN_ISA {

// 32 weights of sixteen rows; lines are those of rising k.
struct Tile32 {
    alignas(64) Line q[8];
    alignas(64) float scale[16];
    alignas(64) float min[16];

    UNLADEN_INLINE void put_scale(__m512 d, __m512 m) {
        _mm512_store_ps(scale, d);
        _mm512_store_ps(min, m);
    }
    UNLADEN_INLINE void put_biased(__m512 d, int bias) {
        put_scale(d, _mm512_mul_ps(d, _mm512_set1_ps(float(-bias))));
    }
    UNLADEN_INLINE void put_nibbles(Lanes codes) {
        for (int j = 0; j < 4; ++j) {
            put(q[j], low_nibbles(codes.v[j]));
            put(q[j + 4], high_nibbles(codes.v[j]));
        }
    }
    // With a fifth bit each: bit k of the lanes of `fifth`.
    UNLADEN_INLINE void put_nibbles(Lanes codes, __m512i fifth) {
        for (int j = 0; j < 4; ++j) {
            put(q[j], _mm512_or_si512(low_nibbles(codes.v[j]), sixteens(fifth, 4 * j)));
            put(q[j + 4], _mm512_or_si512(high_nibbles(codes.v[j]), sixteens(fifth, 4 * j + 16)));
        }
    }
    UNLADEN_INLINE void put_entries(Lanes codes, const int8_t *codebook, int bias) {
        for (int j = 0; j < 4; ++j) {
            put(q[j], look_up(low_nibbles(codes.v[j]), codebook, bias));
            put(q[j + 4], look_up(high_nibbles(codes.v[j]), codebook, bias));
        }
    }

private:
    // Four bits from bit k, one in each byte of a lane, as 16 or 0.
    static UNLADEN_INLINE __m512i sixteens(__m512i bits, int k) {
        const __m512i four = _mm512_and_si512(_mm512_srli_epi32(bits, k), _mm512_set1_epi32(15));
        const __m512i spread = _mm512_mullo_epi32(four, _mm512_set1_epi32(0x02040810));
        return _mm512_and_si512(spread, all_bytes(16));
    }
};

template <>
struct Across<Q8_0> {
    static UNLADEN_INLINE void decode(Tile32 &tile, Sixteen w) {
        const Lanes first = w.at(2).load(), second = w.at(18).load();
        for (int j = 0; j < 4; ++j) {
            put(tile.q[j], _mm512_xor_si512(first.v[j], all_bytes(0x80)));
            put(tile.q[j + 4], _mm512_xor_si512(second.v[j], all_bytes(0x80)));
        }
        tile.put_biased(low_halves(w.load().v[0]), 128);
    }
};

template <>
struct Across<Q4_0> {
    static UNLADEN_INLINE void decode(Tile32 &tile, Sixteen w) {
        tile.put_nibbles(w.at(2).load());
        tile.put_biased(low_halves(w.load().v[0]), 8);
    }
};

template <>
struct Across<Q4_1> {
    static UNLADEN_INLINE void decode(Tile32 &tile, Sixteen w) {
        tile.put_nibbles(w.at(4).load());
        const __m512i both = w.load().v[0];
        tile.put_scale(low_halves(both), high_halves(both));
    }
};

template <>
struct Across<Q5_0> {
    static UNLADEN_INLINE void decode(Tile32 &tile, Sixteen w) {
        const Lanes h = w.load();
        const __m512i fifth = _mm512_or_si512(_mm512_srli_epi32(h.v[0], 16),
                                              _mm512_slli_epi32(h.v[1], 16));
        tile.put_nibbles(w.at(6).load(), fifth);
        tile.put_biased(low_halves(h.v[0]), 16);
    }
};

template <>
struct Across<Q5_1> {
    static UNLADEN_INLINE void decode(Tile32 &tile, Sixteen w) {
        const Lanes h = w.load();
        tile.put_nibbles(w.at(8).load(), h.v[1]);
        tile.put_scale(low_halves(h.v[0]), high_halves(h.v[0]));
    }
};

template <>
struct Across<IQ4_NL> {
    static UNLADEN_INLINE void decode(Tile32 &tile, Sixteen w) {
        tile.put_entries(w.at(2).load(), quants::kvalues_iq4nl, 128);
        tile.put_biased(low_halves(w.load().v[0]), 128);
    }
};

template <>
struct Across<MXFP4> {
    static UNLADEN_INLINE void decode(Tile32 &tile, Sixteen w) {
        tile.put_entries(w.at(1).load(), quants::kvalues_mxfp4, 16);
        // 2^(e - 128); the two smallest are subnormal.
        const __m512i e = _mm512_and_si512(w.load().v[0], _mm512_set1_epi32(255));
        const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
        const __mmask16 tiny = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
        const __m512i d = _mm512_mask_sllv_epi32(normal, tiny, _mm512_set1_epi32(0x00200000), e);
        tile.put_biased(_mm512_castsi512_ps(d), 16);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
