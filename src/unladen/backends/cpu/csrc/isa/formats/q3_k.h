// Q3_K: 256 weights in 110 bytes, 3.4375 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"
#include "backends/cpu/csrc/isa/formats/int8.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (scale - 32) * (q - 4), a scale per 16 weights. Byte 0: the third bits of q, byte j holds
// those of q[j], q[j + 32], ...; 32: the low two, 128 weights in 32 bytes, likewise; 96: the
// scales, low four bits in the nibbles of 8 bytes, then high two in 4; 108: d (float16).
struct Q3_K {
    static constexpr const char *name = "Q3_K";
    static constexpr int block_size = 256, block_bytes = 110;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block + 108);
        const uint8_t *scales = block + 96;
        for (int s = 0; s < 16; ++s, y += 16) {
            const uint8_t *third = block + s % 2 * 16, *p = third + 32 + s / 8 * 32;
            const int shift = s % 8 / 2 * 2;
            const int low = scales[s % 8] >> s / 8 * 4 & 15;
            const int high = scales[8 + s % 4] >> s / 4 * 2 & 3;
            const float scale = d * ((low | high << 4) - 32);
            for (int i = 0; i < 16; i += 8) {
                const uint64_t top = bits::field(third + i, s / 2, 1) << 2;
                bits::each(y + i, bits::field(p + i, shift, 3) | top,
                           [scale](auto q) { return scale * (q - 4); });
            }
        }
    }
};

#if defined(UNLADEN_AVX512)

template <>
struct Fields<Q3_K> : FieldSizes<16, 16, 16, 16, 16, 16, 4, 4, 4, 2> {
    // The order: d; scales; low bits next to the high bits of the same codes; other low bits.
    static constexpr int place(int a) {
        if (a >= 96) return a < 108 ? a - 94 : a - 108;
        return 14 + (a < 32 ? 2 * a + 4 : a < 64 ? 2 * (a - 32) : a);
    }
};

template <class A>
struct Q3KHeaderInLanes {
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
struct InLanes<Q3_K> : Q3KHeaderInLanes<TimesOne>, Fields<Q3_K>, TimesOne {
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        const __m512i high = shifted(w.four(place(i % 8 * 4)), i / 8, 1, 2);
        return either(two_bits<Q3_K>(w, 32, i, 0), high);
    }
};

// Two sub-blocks' eight lines, as ThreePlanes has them.
template <>
struct InLanes<Planes<Q3_K>> : Q3KHeaderInLanes<InLanes<Planes<Q3_K>>>,
                              PlanesOf<Fields<Q3_K>::place(32), 8, 3> {
    static constexpr int times(int s) { return s % 2 ? 8 : 1; }
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        const int j = i % 8;
        if (j % 4 < 3) return masked(plane(w, i, j % 4), j < 4 ? 0x07 : 0x38);
        const __m512i high = shifted(plane(w, i, 1), j < 4 ? 6 : 7, 1, j < 4 ? 2 : 5);
        return with_bits(high, plane(w, i, j < 4 ? 0 : 2), 6, 2, j < 4 ? 0 : 3);
    }
    static UNLADEN_INLINE void join(const __m512i (&q)[8], __m512i (&plane)[3]) {
        ThreePlanes::join(q, plane);
    }
};

#else

// Q3_K: 16 scales plus 32, from the low four bits in the nibbles of eight bytes, then the high two:
// bits 2 i of the four bytes belong to scales 4 i ... 4 i + 3.
struct Q3KScales {
    uint64_t first, second;
    explicit Q3KScales(const uint8_t *p) {
        const uint64_t low = bits::load<uint64_t>(p), high = bits::load<uint32_t>(p + 8);
        const uint64_t nibble = 15 * bits::ones, top = 0x30 * bits::ones;
        first = (low & nibble) | ((high << 4 | high << 34) & top);
        second = (low >> 4 & nibble) | ((high | high << 30) & top);
    }
};

template <>
struct Codes<Q3_K> {
    static constexpr int strands_at = 0, n_strands = 3;
    static constexpr int bias = 4, max_code = 7, sub = 16;
    static constexpr bool has_min = false, is_signed = false;
    const uint8_t *b;
    explicit Codes(const uint8_t *block) : b(block) {}
    float d() const { return bits::half(b + 108); }
    Words16 scales() const {
        const Q3KScales packed(b + 96);
        return Words16::of_signed(packed.first, packed.second).less(32);
    }
    Bytes32 codes(int s) const {
        return two_bits(b + 32, s).plus(Bytes32::load(b).field(s - 2, 4));
    }
};

#endif

#if defined(UNLADEN_AVX2)

// Joins two times 32 codes in halves of bytes; their third bits come from a table.
template <>
struct RowKernel<Q3_K> {
    using Row = Row256;
    using T = Q3_K;

    // Scales: see Q3KScales. Each word gets a byte of low bits and one of high ones.
    static UNLADEN_INLINE Words16 scales(const uint8_t *row) {
        const __m128i at = _mm_setr_epi8(4, 12, 5, 13, 6, 14, 7, 15, 8, 12, 9, 13, 10, 14, 11, 15);
        const __m256i bytes = _mm256_shuffle_epi8(twice128(row + 92),
                                                  _mm256_broadcastsi128_si256(at));
        const __m256i low_at = _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4);
        const __m256i high_at = _mm256_setr_epi32(4, 4, 6, 6, 8, 8, 10, 10);
        const __m256i low = _mm256_and_si256(_mm256_srlv_epi32(bytes, low_at),
                                             _mm256_set1_epi16(15));
        const __m256i high = _mm256_and_si256(_mm256_srlv_epi32(bytes, high_at),
                                              _mm256_set1_epi16(0x30));
        return Words16{_mm256_or_si256(low, high)}.less(32);
    }

    // Among the first or the last four times 32 codes (i / 2), number i % 2 in low halves of bytes
    // and number i % 2 + 2 in high halves.
    static UNLADEN_INLINE Bytes32 two_of_four(const uint8_t *row, int i) {
        static constexpr int8_t thirds[2][16] = {
            {0, 4, 0, 4, 64, 68, 64, 68, 0, 4, 0, 4, 64, 68, 64, 68},
            {0, 0, 4, 4, 0, 0, 4, 4, 64, 64, 68, 68, 64, 64, 68, 68}};
        const Bytes32 top = Bytes32::load(row).field(i / 2 * 4, 15).look_up(thirds[i % 2]);
        return Bytes32::load(row + 32 + i / 2 * 32).field(i % 2 * 2, 0x33).plus(top);
    }

    template <int C>
    static UNLADEN_INLINE void dot(float *out, const uint8_t *row, int n_cols, const Row *x,
                                   auto ahead) {
        Total total[C];
        for (int b = 0; b < n_cols / 256; ++b, row += T::block_bytes) {
            ahead.ask(row, T::block_bytes);
            const Words16 words = scales(row);
            const Scales spread(words);
            Sums sums[C];
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                sums[c] = words.dot(x[c].minus + 16 * b).times(Codes<T>::bias);
            }
#pragma GCC unroll 4
            for (int i = 0; i < 4; ++i) {
                const Bytes32 two = two_of_four(row, i);
#pragma GCC unroll 2
                for (int high = 0; high < 2; ++high) {
                    const int s = i / 2 * 4 + i % 2 + 2 * high;
                    const Bytes32 q = two.field(4 * high, 15);
#pragma GCC unroll 4
                    for (int c = 0; c < C; ++c) {
                        const int8_t *x_s = x[c].q + 256 * b + 32 * s;
                        spread.template add_products<false>(sums[c], q, x_s, s);
                    }
                }
            }
            const float d = bits::half(row + T::block_bytes - 2);
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) total[c].add(d * x[c].d[b], sums[c]);
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) out[c] = total[c].sum();
    }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
