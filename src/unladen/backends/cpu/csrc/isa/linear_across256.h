// Across<T> for blocks of 256, whose codes are decoded in n_parts steps:
// w = scale[i / sub] * code[i] - dmin * min[i / sub], where the scales hold d, and a bias of the
// codes is a min: the scale without d, dmin being d times the bias.
#pragma once

#include "backends/cpu/csrc/isa/linear_across.h"

namespace unladen::cpu::UNLADEN_ISA {

// 256 weights of sixteen rows; lines are those of rising k.
struct Tile256 {
    alignas(64) Line q[64];
    alignas(64) float scale[16][16];  // [sub-block][row]
    alignas(64) int16_t min[8][32];   // [pair of sub-blocks][row][2]
    alignas(64) float dmin[16];

    UNLADEN_INLINE void put_scale(int s, __m512 d, __m512i value) {
        _mm512_store_ps(scale[s], _mm512_mul_ps(d, _mm512_cvtepi32_ps(value)));
    }
    // From four signed bytes per lane, those of sub-blocks s ... s + 3.
    UNLADEN_INLINE void put_scales(int s, __m512 d, __m512i bytes) {
        put_scale(s, d, _mm512_srai_epi32(_mm512_slli_epi32(bytes, 24), 24));
        put_scale(s + 1, d, _mm512_srai_epi32(_mm512_slli_epi32(bytes, 16), 24));
        put_scale(s + 2, d, _mm512_srai_epi32(_mm512_slli_epi32(bytes, 8), 24));
        put_scale(s + 3, d, _mm512_srai_epi32(bytes, 24));
    }
    UNLADEN_INLINE void put_mins(int s, __m512i bytes) {
        const __m128i first = _mm_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1,
                                            13);
        const __m128i second = _mm_setr_epi8(-1, 2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1,
                                             15);
        put_min_pairs(s / 2, words(bytes, first));
        put_min_pairs(s / 2 + 1, words(bytes, second));
    }
    UNLADEN_INLINE void put_min_pairs(int pair, __m512i words) {
        _mm512_store_si512(min[pair], words);
    }
    UNLADEN_INLINE void put_dmin(__m512 d) { _mm512_store_ps(dmin, d); }
    UNLADEN_INLINE void put_bias(__m512 d, int bias) {
        put_dmin(_mm512_mul_ps(d, _mm512_set1_ps(float(bias))));
    }

private:
    static UNLADEN_INLINE __m512i words(__m512i bytes, __m128i pick) {
        const __m512i in_place = _mm512_shuffle_epi8(bytes, _mm512_broadcast_i32x4(pick));
        return _mm512_srai_epi16(in_place, 8);
    }
};

UNLADEN_INLINE __m512i masked(__m512i v, int byte) {
    return _mm512_and_si512(v, all_bytes(byte));
}
UNLADEN_INLINE __m512i either(__m512i a, __m512i b) { return _mm512_or_si512(a, b); }
UNLADEN_INLINE __m512i down(__m512i v, int n) { return _mm512_srli_epi32(v, n); }

// Q4_K and Q5_K.
struct AcrossKHeader {
    static constexpr int sub = 32;
    static UNLADEN_INLINE void scales(Tile256 &tile, Sixteen w) {
        const Lanes h = w.load();
        const __m512 d = low_halves(h.v[0]);
        const __m512i p = h.v[1], q = h.v[2], r = h.v[3];
        tile.put_scales(0, d, masked(p, 0x3f));
        tile.put_scales(4, d, either(masked(r, 0x0f), masked(down(p, 2), 0x30)));
        tile.put_mins(0, masked(q, 0x3f));
        tile.put_mins(4, either(masked(down(r, 4), 0x0f), masked(down(q, 2), 0x30)));
        tile.put_dmin(high_halves(h.v[0]));
    }
};

template <>
struct Across<Q4_K> : AcrossKHeader {
    static constexpr int n_parts = 8;
    static UNLADEN_INLINE void codes(Tile256 &tile, Sixteen w, int part) {
        const Lanes q = w.at(16 + 16 * part).load();
        Line *to = tile.q + part / 2 * 16 + part % 2 * 4;
        for (int j = 0; j < 4; ++j) {
            put(to[j], low_nibbles(q.v[j]));
            put(to[j + 8], high_nibbles(q.v[j]));
        }
    }
};

template <>
struct Across<Q5_K> : AcrossKHeader {
    static constexpr int n_parts = 2;
    static UNLADEN_INLINE void codes(Tile256 &tile, Sixteen w, int half) {
        const Lanes fifth = w.at(16 + 16 * half).load();
        for (int i = 0; i < 4; ++i) {
            const Lanes q = w.at(48 + 32 * i + 16 * half).load();
            Line *to = tile.q + 16 * i + 4 * half;
            for (int j = 0; j < 4; ++j) {
                put(to[j], either(low_nibbles(q.v[j]), field(fifth.v[j], 2 * i, 1, 4)));
                put(to[j + 8], either(high_nibbles(q.v[j]), field(fifth.v[j], 2 * i + 1, 1, 4)));
            }
        }
    }
};

template <>
struct Across<Q6_K> {
    static constexpr int sub = 16;
    static constexpr int n_parts = 4;  // 64 high bits' fields each: a half of a half block
    static UNLADEN_INLINE void codes(Tile256 &tile, Sixteen w, int part) {
        const int half = part / 2, even = part % 2;
        const Lanes top = w.at(128 + 16 * part).load();
        for (int i = 0; i < 2; ++i) {
            const Lanes q = w.at(64 * half + 32 * i + 16 * even).load();
            Line *to = tile.q + 32 * half + 8 * i + 4 * even;
            for (int j = 0; j < 4; ++j) {
                put(to[j], either(low_nibbles(q.v[j]), field(top.v[j], 2 * i, 2, 4)));
                put(to[j + 16], either(high_nibbles(q.v[j]), field(top.v[j], 2 * i + 4, 2, 4)));
            }
        }
    }
    static UNLADEN_INLINE void scales(Tile256 &tile, Sixteen w) {
        const __m512 d = high_halves(w.at(194).load().v[3]);
        const Lanes s = w.at(192).load();
        for (int i = 0; i < 4; ++i) {
            tile.put_scales(4 * i, d, s.v[i]);
            tile.put_mins(4 * i, s.v[i]);
        }
        tile.put_bias(d, 32);
    }
};

template <>
struct Across<Q3_K> {
    static constexpr int sub = 16;
    static constexpr int n_parts = 2;
    static UNLADEN_INLINE void codes(Tile256 &tile, Sixteen w, int even) {
        const Lanes third = w.at(16 * even).load();
        for (int half = 0; half < 2; ++half) {
            const Lanes q = w.at(32 + 32 * half + 16 * even).load();
            Line *to = tile.q + 32 * half + 4 * even;
            for (int i = 0; i < 4; ++i) {
                for (int j = 0; j < 4; ++j) {
                    put(to[8 * i + j], either(field(q.v[j], 2 * i, 2, 0),
                                              field(third.v[j], 4 * half + i, 1, 2)));
                }
            }
        }
    }
    static UNLADEN_INLINE void scales(Tile256 &tile, Sixteen w) {
        // The block's last 14 bytes, first of all its 12 of scales.
        const Lanes h = w.at(94).load(
            _mm_setr_epi8(2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1));
        const __m512 d = low_halves(h.v[3]);
        const __m512i low[] = {masked(h.v[0], 15), masked(h.v[1], 15),
                               masked(down(h.v[0], 4), 15), masked(down(h.v[1], 4), 15)};
        const __m512i top[] = {_mm512_slli_epi32(h.v[2], 4), _mm512_slli_epi32(h.v[2], 2), h.v[2],
                               down(h.v[2], 2)};
        for (int i = 0; i < 4; ++i) {
            const __m512i s =
                _mm512_sub_epi8(either(low[i], masked(top[i], 0x30)), all_bytes(32));
            tile.put_scales(4 * i, d, s);
            tile.put_mins(4 * i, s);
        }
        tile.put_bias(d, 4);
    }
};

// Two bits of each weight, a quarter of a block: the 64 in the part-th 16 bytes of 64.
UNLADEN_INLINE void put_two_bits(Tile256 &tile, Sixteen w, int part) {
    const Lanes q = w.load();
    Line *to = tile.q + 32 * (part / 2) + 4 * (part % 2);
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) put(to[8 * i + j], field(q.v[j], 2 * i, 2, 0));
    }
}

template <>
struct Across<Q2_K> {
    static constexpr int sub = 16;
    static constexpr int n_parts = 4;
    static UNLADEN_INLINE void codes(Tile256 &tile, Sixteen w, int part) {
        put_two_bits(tile, w.at(16 + 16 * part), part);
    }
    static UNLADEN_INLINE void scales(Tile256 &tile, Sixteen w) {
        const __m512i both = w.at(68).load().v[3];
        const Lanes s = w.load();
        for (int i = 0; i < 4; ++i) {
            tile.put_scales(4 * i, low_halves(both), low_nibbles(s.v[i]));
            tile.put_mins(4 * i, high_nibbles(s.v[i]));
        }
        tile.put_dmin(high_halves(both));
    }
};

template <>
struct Across<IQ4_XS> {
    static constexpr int sub = 32;
    static constexpr int n_parts = 8;
    static UNLADEN_INLINE void codes(Tile256 &tile, Sixteen w, int s) {
        const Lanes q = w.at(8 + 16 * s).load();
        for (int j = 0; j < 4; ++j) {
            put(tile.q[8 * s + j], look_up(low_nibbles(q.v[j]), quants::kvalues_iq4nl, 128));
            put(tile.q[8 * s + j + 4], look_up(high_nibbles(q.v[j]), quants::kvalues_iq4nl, 128));
        }
    }
    static UNLADEN_INLINE void scales(Tile256 &tile, Sixteen w) {
        const Lanes h = w.load();
        const __m512 d = low_halves(h.v[0]);
        const __m512i low = h.v[1], high = down(h.v[0], 16);
        __m512i s[8];
        for (int i = 0; i < 8; ++i) {
            const __m512i bits4 = _mm512_and_si512(down(low, 4 * i), _mm512_set1_epi32(15));
            const __m512i bits2 = _mm512_and_si512(down(high, 2 * i), _mm512_set1_epi32(3));
            s[i] = _mm512_sub_epi32(either(bits4, _mm512_slli_epi32(bits2, 4)),
                                    _mm512_set1_epi32(32));
            tile.put_scale(i, d, s[i]);
        }
        for (int i = 0; i < 4; ++i) {
            const __m512i first = _mm512_and_si512(s[2 * i], _mm512_set1_epi32(0xffff));
            tile.put_min_pairs(i, either(first, _mm512_slli_epi32(s[2 * i + 1], 16)));
        }
        tile.put_bias(d, 128);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
