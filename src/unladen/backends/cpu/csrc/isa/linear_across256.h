// Across<T> for blocks of 256: w = scale[i / sub] * code[i] - dmin * min[i / sub], where the scales
// hold d, and a bias of the codes is a min: the scale without d, dmin being d times the bias. With
// `summed_bias`, which is for sub-blocks of 16, sums of products begin with it instead of a min.
// Codes of sub-block s are times(s) as large, where they stand in their bytes, and the scale makes
// up for it: no shift, and no other sums, for it is a power of two. With a bias it is one of s % 2.
#pragma once

#include "backends/cpu/csrc/isa/linear_interleave.h"

namespace unladen::cpu::UNLADEN_ISA {

// Everything of 256 weights of sixteen rows but the codes.
struct Scales256 {
    alignas(64) float scale[16][16];  // [sub-block][row]
    alignas(64) int16_t min[8][32];   // [pair of sub-blocks][row][2]
    alignas(64) float dmin[16];

    UNLADEN_INLINE void put_scale(int s, __m512 d, __m512i value) {
        _mm512_store_ps(scale[s], _mm512_mul_ps(d, _mm512_cvtepi32_ps(value)));
    }
    // From four signed bytes per lane, those of sub-blocks s ... s + 3 of A.
    template <class A>
    UNLADEN_INLINE void put_scales(int s, __m512 d, __m512i bytes) {
        const auto put = [&](int i, __m512i value) {
            put_scale(i, _mm512_mul_ps(d, _mm512_set1_ps(1.0f / A::times(i))), value);
        };
        put(s, _mm512_srai_epi32(_mm512_slli_epi32(bytes, 24), 24));
        put(s + 1, _mm512_srai_epi32(_mm512_slli_epi32(bytes, 16), 24));
        put(s + 2, _mm512_srai_epi32(_mm512_slli_epi32(bytes, 8), 24));
        put(s + 3, _mm512_srai_epi32(bytes, 24));
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

template <class A>
constexpr bool sums_bias = requires { A::summed_bias; };

// Where the sums of products of sub-block s's codes with a column begin; times32 is 32 times minus
// the sum of the column's numbers.
template <class A>
UNLADEN_INLINE __m512i first_products256(const int32_t *times32, int s) {
    if constexpr (!sums_bias<A>) {
        return _mm512_setzero_si512();
    } else {
        const __m512i all = _mm512_set1_epi32(*times32);
        static_assert(A::sub == 16);
        const int bias = A::summed_bias * A::times(s);  // a power of two
        const __m512i sum = bias >= 32 ? _mm512_slli_epi32(all, __builtin_ctz(bias / 32))
                                       : _mm512_srai_epi32(all, __builtin_ctz(32 / bias));
        if constexpr (constexpr int lacks = lacking<A>(); lacks == 0)
            return sum;
        else
            return _mm512_sub_epi32(sum, _mm512_srai_epi32(all, __builtin_ctz(32 / lacks)));
    }
}

// Four codes of each of sixteen rows make a line of a tile.
using Line = uint8_t[64];
UNLADEN_INLINE void put(Line &line, __m512i codes) { _mm512_store_si512(line, codes); }

struct Tile256 : Scales256 {
    alignas(64) Line q[64];
};

struct TimesOne {
    static constexpr int times(int) { return 1; }
};

// Of Q4_K and Q5_K.
template <class T>
struct AcrossKHeader {
    static constexpr int sub = 32;
    static UNLADEN_INLINE void scales(Scales256 &to, Interleaved w) {
        const __m512 d = w.half(0);
        const __m512i p = w.four(4), q = w.four(8), r = w.four(12);
        to.put_scales<Across<T>>(0, d, masked(p, 0x3f));
        to.put_scales<Across<T>>(4, d, either(masked(r, 0x0f), masked(down(p, 2), 0x30)));
        to.put_mins(0, masked(q, 0x3f));
        to.put_mins(4, either(masked(down(r, 4), 0x0f), masked(down(q, 2), 0x30)));
        to.put_dmin(w.half(2));
    }
};

template <>
struct Across<Q4_K> : AcrossKHeader<Q4_K> {
    static constexpr int times(int s) { return s % 2 ? 16 : 1; }
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        return masked(w.four(16 + i / 16 * 32 + i % 8 * 4), i / 8 % 2 ? 0xf0 : 0x0f);
    }
};

template <>
struct Across<Q5_K> : AcrossKHeader<Q5_K>, Fields<Q5_K>, TimesOne {
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        const __m512i q = nibbles(w.four(place(48 + i / 16 * 32 + i % 8 * 4)), i / 8 % 2);
        return either(q, shifted(w.four(place(16 + i % 8 * 4)), i / 8, 1, 4));
    }
};

// A: what says how high the codes stand.
template <class A>
struct AcrossQ6KHeader {
    static constexpr int sub = 16, summed_bias = 32;
    static UNLADEN_INLINE void scales(Scales256 &to, Interleaved w) {
        constexpr auto place = Fields<Q6_K>::place;
        const __m512 d = w.half(place(208));
        for (int i = 0; i < 4; ++i) {
            to.put_scales<A>(4 * i, d, w.four(place(192 + 4 * i)));
        }
    }
};

template <>
struct Across<Q6_K> : AcrossQ6KHeader<TimesOne>, Fields<Q6_K>, TimesOne {
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        const int half = i / 32, quarter = i % 32 / 8, at = i % 8 * 4;
        const __m512i q = nibbles(w.four(place(64 * half + quarter % 2 * 32 + at)), quarter / 2);
        return either(q, shifted(w.four(place(128 + 32 * half + at)), 2 * quarter, 2, 4));
    }
};

// Two bits of line i, which are 32 bytes for each 128 weights, from byte `first` of a block on.
template <class T>
UNLADEN_INLINE __m512i two_bits(Interleaved w, int first, int i, int to) {
    const int at = Fields<T>::place(first + i / 32 * 32 + i % 8 * 4);
    return shifted(w.four(at), i % 32 / 8 * 2, 2, to);
}

template <class A>
struct AcrossQ3KHeader {
    static constexpr int sub = 16, summed_bias = 4;
    static UNLADEN_INLINE void scales(Scales256 &to, Interleaved w) {
        constexpr auto place = Fields<Q3_K>::place;
        const __m512 d = w.half(place(108));
        const __m512i p = w.four(place(96)), q = w.four(place(100)), r = w.four(place(104));
        const __m512i low[] = {masked(p, 15), masked(q, 15), masked(down(p, 4), 15),
                               masked(down(q, 4), 15)};
        const __m512i top[] = {_mm512_slli_epi32(r, 4), _mm512_slli_epi32(r, 2), r, down(r, 2)};
        for (int i = 0; i < 4; ++i) {
            const __m512i s =
                _mm512_sub_epi8(either(low[i], masked(top[i], 0x30)), all_bytes(32));
            to.put_scales<A>(4 * i, d, s);
        }
    }
};

template <>
struct Across<Q3_K> : AcrossQ3KHeader<TimesOne>, Fields<Q3_K>, TimesOne {
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        const __m512i high = shifted(w.four(place(i % 8 * 4)), i / 8, 1, 2);
        return either(two_bits<Q3_K>(w, 32, i, 0), high);
    }
};

template <>
struct Across<Q2_K> : Fields<Q2_K> {
    static constexpr int sub = 16;
    static constexpr int times(int s) { return 1 << s % 8 / 2 * 2; }
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        return two_bits<Q2_K>(w, 16, i, i % 32 / 8 * 2);
    }
    static UNLADEN_INLINE void scales(Scales256 &to, Interleaved w) {
        const __m512 d = w.half(place(80));
        for (int i = 0; i < 4; ++i) {
            const __m512i both = w.four(place(4 * i));
            to.put_scales<Across>(4 * i, d, nibbles(both, false));
            to.put_mins(4 * i, nibbles(both, true));
        }
        to.put_dmin(w.half(place(82)));
    }
};

template <>
struct Across<TQ2_0> : Fields<TQ2_0> {
    static constexpr int sub = 32;
    static constexpr int times(int s) { return 1 << s % 4 * 2; }
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        return two_bits<TQ2_0>(w, 0, i, i % 32 / 8 * 2);
    }
    static UNLADEN_INLINE void scales(Scales256 &to, Interleaved w) {
        const __m512 d = w.half(place(64));
        for (int s = 0; s < 8; ++s) {
            _mm512_store_ps(to.scale[s], _mm512_mul_ps(d, _mm512_set1_ps(1.0f / times(s))));
        }
        for (int p = 0; p < 4; ++p) to.put_min_pairs(p, _mm512_set1_epi16(1));
        to.put_dmin(d);
    }
};

template <>
struct Across<IQ4_XS> {
    static constexpr int sub = 32;
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        const __m512i q = w.four(8 + i / 8 * 16 + i % 4 * 4);
        return look_up(nibbles(q, i / 4 % 2), quants::kvalues_iq4nl, 128);
    }
    static UNLADEN_INLINE void scales(Scales256 &to, Interleaved w) {
        const __m512 d = w.half(0);
        const __m512i low = w.four(4), high = w.word(2);
        __m512i s[8];
        for (int i = 0; i < 8; ++i) {
            const __m512i bits4 = _mm512_and_si512(down(low, 4 * i), _mm512_set1_epi32(15));
            const __m512i bits2 = _mm512_and_si512(down(high, 2 * i), _mm512_set1_epi32(3));
            s[i] = _mm512_sub_epi32(either(bits4, _mm512_slli_epi32(bits2, 4)),
                                    _mm512_set1_epi32(32));
            to.put_scale(i, d, s[i]);
        }
        for (int i = 0; i < 4; ++i) {
            const __m512i first = _mm512_and_si512(s[2 * i], _mm512_set1_epi32(0xffff));
            to.put_min_pairs(i, either(first, _mm512_slli_epi32(s[2 * i + 1], 16)));
        }
        to.put_bias(d, 128);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
