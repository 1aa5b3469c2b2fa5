// IQ4_XS: 256 weights in 136 bytes, 4.25 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"
#include "backends/cpu/csrc/isa/formats/int8.h"
#include "backends/cpu/csrc/isa/formats/tables.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (scale - 32) * codebook[q], a scale per 32 weights. Byte 0: d (float16); 2: the high two
// bits of the scales, one uint16; 4: their low four, in nibbles; 8: q, 32 weights in 16 bytes, byte
// j holds q[j] and q[j + 16].
struct IQ4_XS {
    static constexpr const char *name = "IQ4_XS";
    static constexpr int block_size = 256, block_bytes = 136;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const float d = bits::half(block);
        const unsigned high = bits::load<uint16_t>(block + 2);
        for (int s = 0; s < 8; ++s, y += 32) {
            const int low = block[4 + s / 2] >> s % 2 * 4 & 15;
            uint8_t q[32];
            bits::look_up_nibbles(block + 8 + 16 * s, quants::kvalues_iq4nl, q, q + 16);
            bits::scale<32>(y, d * (int(low | (high >> 2 * s & 3) << 4) - 32), q);
        }
    }
};

#if defined(UNLADEN_AVX512)

template <>
struct Fields<IQ4_XS> : FieldSizes<2, 2, 4, 16, 16, 16, 16, 16, 16, 16, 16> {};

template <>
struct InLanes<IQ4_XS> {
    static constexpr int rolled_lines = 16, rolled_bytes = 512;
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

#else

// IQ4_XS: eight scales plus 32, the high two bits in a uint16 at byte 2 of the block, the low four
// in the nibbles of four bytes at 4.
inline uint64_t iq4_xs_scales(const uint8_t *block) {
    // Spreads the fields: half of them move up, then half of each half.
    uint64_t high = bits::load<uint16_t>(block + 2), low = bits::load<uint32_t>(block + 4);
    low = (low | low << 16) & 0x0000ffff0000ffff;
    low = (low | low << 8) & 0x00ff00ff00ff00ff;
    low = (low | low << 4) & (15 * bits::ones);
    high = (high | high << 24) & 0x000000ff000000ff;
    high = (high | high << 12) & 0x000f000f000f000f;
    high = (high | high << 6) & (3 * bits::ones);
    return low | high << 4;
}

template <>
struct Codes<IQ4_XS> {
    static constexpr int bias = 0, max_code = 127, sub = 32;
    static constexpr bool has_min = false, is_signed = true;
    const uint8_t *b;
    explicit Codes(const uint8_t *block) : b(block) {}
    float d() const { return bits::half(b); }
    Words16 scales() const {
        return Words16::twice(iq4_xs_scales(b)).less(32);
    }
    static constexpr int nibbles_at = 8;
    static constexpr bool has_fifth = false;
    static Bytes32 decode(Bytes32 nibbles) { return nibbles.look_up(quants::kvalues_iq4nl); }
    Bytes32 codes(int s) const { return decode(Bytes32::nibbles(b + nibbles_at + 16 * s)); }
};

#endif

#if defined(UNLADEN_AVX2)

// IQ4_XS.
template <>
struct RowKernel<IQ4_XS> {
    using Row = Row256Pairs;
    using T = IQ4_XS;
    using W = Codes<T>;

    // Scales 0, 2, 4 and 6 in one half, the others in the other, each twice: see iq4_xs_scales. Two
    // bits of each in the upper word of four bytes, four in the next four bytes.
    static UNLADEN_INLINE __m256i scales(const uint8_t *row) {
        const __m256i first = _mm256_set1_epi32(bits::load<int32_t>(row));
        const __m256i second = _mm256_set1_epi32(bits::load<int32_t>(row + 4));
        const __m256i high_at = _mm256_setr_epi32(12, 16, 20, 24, 14, 18, 22, 26);
        const __m256i low_at = _mm256_setr_epi32(0, 8, 16, 24, 4, 12, 20, 28);
        const __m256i high = _mm256_and_si256(_mm256_srlv_epi32(first, high_at),
                                              _mm256_set1_epi32(0x30));
        const __m256i low = _mm256_and_si256(_mm256_srlv_epi32(second, low_at),
                                             _mm256_set1_epi32(15));
        return _mm256_sub_epi16(_mm256_or_si256(high, low), _mm256_set1_epi32(32));
    }

    template <int C>
    static UNLADEN_INLINE void dot(float *out, const uint8_t *row, int n_cols, const Row *x,
                                   auto ahead) {
        Total total[C];
        for (int b = 0; b < n_cols / 256; ++b, row += T::block_bytes) {
            ahead.ask(row, T::block_bytes);
            const __m256i all_scales = scales(row);
            const auto *halves = reinterpret_cast<const __m128i *>(row);
            const __m128 d = _mm_cvtph_ps(_mm_loadl_epi64(halves));  // d in lane 0; others unused
            Sums sums[C];
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) sums[c] = Sums::zero();
#pragma GCC unroll 4
            for (int s = 0; s < 8; s += 2) {
                const auto q = TwoBlocks::of<W>(load256(row + W::nibbles_at + 16 * s));
                const __m256i pick = _mm256_set1_epi32(0x01000100 + s / 2 * 0x04040404);
                const __m256i scale = _mm256_shuffle_epi8(all_scales, pick);
#pragma GCC unroll 4
                for (int c = 0; c < C; ++c) {
                    const int i = 256 * b + 32 * s;
                    sums[c].add(products_of<T>(q.first, x[c], i), scale);
                    sums[c].add(products_of<T>(q.last, x[c], i + 32), scale);
                }
            }
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                total[c].add(_mm_mul_ss(d, _mm_load_ss(x[c].d + b)), sums[c]);
            }
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) out[c] = total[c].sum();
    }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
