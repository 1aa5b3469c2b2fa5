// Q6_K: 256 weights in 210 bytes, 6.5625 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"
#include "backends/cpu/csrc/isa/formats/int8.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * scale * (q - 32), a scale per 16 weights. Byte 0: the low four bits of q, 128 weights in
// 64 bytes, byte j holds those of q[j] and q[j + 64]; 128: the high two, 128 weights in 32 bytes,
// likewise; 192: scales (int8); 208: d (float16).
struct Q6_K {
    static constexpr const char *name = "Q6_K";
    static constexpr int block_size = 256, block_bytes = 210;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block + 208);
        for (int s = 0; s < 16; ++s, y += 16) {
            const uint8_t *low = block + s / 8 * 64 + s % 4 * 16;
            const uint8_t *high = block + 128 + s / 8 * 32 + s % 2 * 16;
            const int low_shift = s % 8 / 4 * 4, high_shift = s % 8 / 2 * 2;
            const float scale = d * int8_t(block[192 + s]);
            for (int i = 0; i < 16; i += 8) {
                const uint64_t top = bits::field(high + i, high_shift, 3) << 4;
                bits::each(y + i, bits::field(low + i, low_shift, 15) | top,
                           [scale](auto q) { return scale * (q - 32); });
            }
        }
    }
};

#if defined(UNLADEN_SCREENS)
template <>
inline constexpr int rest_bytes_of<Q6_K> = 32;

// A coarse code lacks at most half a step. All sixteen codes of a sub-block may lack it in the same
// direction, so activations count as the sum of their magnitudes. A code is at most 64 half steps,
// and the length of sixteen numbers at most 4 times the largest.
inline void add_squares(Squares &to, const uint8_t *block, Q6_K) {
    const int sum = total(squares(_mm256_cvtepi8_epi16(load128(block + 192))));
    const double d = bits::half(block + 208), lacking = 0.25 * d * d * sum;
    to.lacking += lacking;
    to.all += (256.0 * 256.0) * lacking;
}

#endif

#if defined(UNLADEN_AVX512)

template <>
struct Fields<Q6_K> : FieldSizes<16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 2> {
    // d; scales; of each half low bits beside the high ones, and low bits.
    static constexpr int place(int a) {
        if (a >= 192) return a < 208 ? a - 190 : a - 208;
        if (a >= 128) return 18 + (a - 128) / 32 * 96 + a % 32 * 2 + 4;
        return 18 + a / 64 * 96 + (a % 64 < 32 ? a % 64 * 2 : a % 64 + 32);
    }
};

// A says by what power of two the codes are larger.
template <class A>
struct Q6KHeaderInLanes {
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
struct InLanes<Q6_K> : Q6KHeaderInLanes<TimesOne>, Fields<Q6_K>, TimesOne {
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        const int half = i / 32, quarter = i % 32 / 8, at = i % 8 * 4;
        const __m512i q = nibbles(w.four(place(64 * half + quarter % 2 * 32 + at)), quarter / 2);
        return either(q, shifted(w.four(place(128 + 32 * half + at)), 2 * quarter, 2, 4));
    }
};

// Two bits of each code of line 3 are above the codes of the other lines.
template <>
struct InLanes<Planes<Q6_K>> : Q6KHeaderInLanes<TimesOne>,
                              PlanesOf<Fields<Q6_K>::place(0), 4, 3>,
                              TimesOne {
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        if (i % 4 < 3) return masked(plane(w, i, i % 4), 0x3f);
        const __m512i low = with_bits(shifted(plane(w, i, 2), 6, 2, 0), plane(w, i, 1), 6, 2, 2);
        return with_bits(low, plane(w, i, 0), 6, 2, 4);
    }
    static UNLADEN_INLINE void join(const __m512i (&q)[4], __m512i (&plane)[3]) {
        for (int j = 0; j < 3; ++j) plane[j] = with_bits(q[j], q[3], 4 - 2 * j, 2, 6);
    }
};

// Codes are four times as large.
template <class A>
struct DividedQ6K : Q6KHeaderInLanes<A>, FiveBits<18, 3> {
    static constexpr int times(int) { return 4; }
};

template <>
struct InLanes<Coarse<Q6_K>> : DividedQ6K<InLanes<Coarse<Q6_K>>> {
    static constexpr int lacks = 2;
};

// The lowest bits of eight lines, one above the other.
template <>
struct InLanes<Whole<Q6_K>> : DividedQ6K<InLanes<Whole<Q6_K>>> {
    static constexpr int n_rest = 1;
    static UNLADEN_INLINE __m512i line(CoarseAndRest w, int i) {
        const __m512i low = shifted(load512(w.rest + i / 8 * 64), i % 8, 1, 2);
        return either(FiveBits::line(w, i), low);
    }
    static UNLADEN_INLINE __m512i code(Interleaved block, int i) {
        return _mm512_slli_epi32(InLanes<Q6_K>::line(block, i), 2);
    }
    static UNLADEN_INLINE void join_rest(const __m512i (&q)[8], __m512i (&rest)[1]) {
        rest[0] = _mm512_setzero_si512();
        for (int j = 0; j < 8; ++j) rest[0] = with_bits(rest[0], q[j], 2, 1, j);
    }
};

#else

template <>
struct Codes<Q6_K> {
    static constexpr int strands_at = 0, n_strands = 6;
    static constexpr int bias = 32, max_code = 63, sub = 16;
    static constexpr bool has_min = false, is_signed = false;
    const uint8_t *b;
    explicit Codes(const uint8_t *block) : b(block) {}
    float d() const { return bits::half(b + 208); }
    Words16 scales() const { return Words16::of_signed(b + 192); }
    Bytes32 codes(int s) const {
        const Bytes32 low = Bytes32::load(b + s / 4 * 64 + s % 2 * 32).field(s % 4 / 2 * 4, 15);
        return low.plus(two_bits(b + 128, s, 4));
    }
};

#endif

#if defined(UNLADEN_AVX2)

UNLADEN_INLINE Bytes32 whole_codes(Q6_K, const uint8_t *p, const uint8_t *rest, int s) {
    return with_bits(highest_five(p, s).up(1), Bytes32::load(rest), s, 1, 0);
}

// Divided rows: scales and d are after the planes, as they are after the codes of a block.
struct DividedQ6KCodes {
    static constexpr int sub = 16;
    static constexpr bool has_min = false, is_signed = false;
    const uint8_t *p, *rest;
    float d() const { return bits::half(p + 176); }
    Words16 scales() const { return Words16::of_signed(p + 160); }
};

// Codes twice as large as 2 c + 1/2 - 32, where c are the five highest bits.
template <>
struct Codes<Coarse<Q6_K>> : DividedQ6KCodes {
    static constexpr int bias = 63, max_code = 124;
    float d() const { return 0.5f * DividedQ6KCodes::d(); }
    Bytes32 codes(int s) const { return highest_five(p, s).up(2); }
};

template <>
struct Codes<Whole<Q6_K>> : DividedQ6KCodes {
    static constexpr int bias = 32, max_code = 63;
    Bytes32 codes(int s) const { return whole_codes(Q6_K(), p, rest, s); }
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
    template <class Tile>
    static void deal_header(Tile &tile, int half, DividedRows rows) {
        Bytes32 scales[8];
        for (int r = 0; r < 8; ++r) {
            scales[r] = Words16::of_signed(rows.from(r).p + 160).bytes();
        }
        deal(tile.scale, half, scales);
        deal_halves(tile.d + 8 * half, rows.p + 176, rows.stride);
    }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
