// The 12 bytes of 6-bit scales and minimums of Q4_K and Q5_K.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"
#include "backends/cpu/csrc/isa/formats/int8.h"

namespace unladen::cpu::UNLADEN_ISA::bits {

// Scale s of 8. The first four are the low 6 bits of bytes 0..3. The others have their low 4 bits
// in the low nibbles of bytes 8..11 and their high 2 bits in the top 2 bits of bytes 0..3.
inline int k_scale(const uint8_t *p, int s) {
    return s < 4 ? p[s] & 63 : (p[s + 4] & 15) | (p[s - 4] >> 6 << 4);
}

// Minimum s of 8: likewise in bytes 4..7 and the high nibbles of bytes 8..11.
inline int k_min(const uint8_t *p, int s) {
    return s < 4 ? p[s + 4] & 63 : (p[s + 4] >> 4) | (p[s] >> 6 << 4);
}

}  // namespace unladen::cpu::UNLADEN_ISA::bits

namespace unladen::cpu::UNLADEN_ISA {

#if defined(UNLADEN_AVX512)

// Scales and minimums in lanes.
template <class T>
struct KHeaderInLanes {
    static constexpr int sub = 32;
    static UNLADEN_INLINE void scales(Scales256 &to, Interleaved w) {
        const __m512 d = w.half(0);
        const __m512i p = w.four(4), q = w.four(8), r = w.four(12);
        to.put_scales<InLanes<T>>(0, d, masked(p, 0x3f));
        to.put_scales<InLanes<T>>(4, d, either(masked(r, 0x0f), masked(down(p, 2), 0x30)));
        to.put_mins(0, masked(q, 0x3f));
        to.put_mins(4, either(masked(down(r, 4), 0x0f), masked(down(q, 2), 0x30)));
        to.put_dmin(w.half(2));
    }
};

#else

// Q4_K and Q5_K: d, dmin and 12 bytes of eight 6-bit scales and minimums.
struct KHeader {
    static constexpr int bias = 0, sub = 32;
    static constexpr bool has_min = true, is_signed = false;
    static constexpr uint32_t six = 0x3f3f3f3f, low = 0x0f0f0f0f, high = 0x30303030;
    const uint8_t *b;
    uint32_t p, q, r;
    explicit KHeader(const uint8_t *block)
        : b(block), p(bits::load<uint32_t>(b + 4)), q(bits::load<uint32_t>(b + 8)),
          r(bits::load<uint32_t>(b + 12)) {}
    float d() const { return bits::half(b); }
    float dmin() const { return bits::half(b + 2); }
    Words16 scales() const {
        return Words16::twice((p & six) | uint64_t((r & low) | (p >> 2 & high)) << 32);
    }
    Words16 mins() const {
        return Words16::twice((q & six) | uint64_t((r >> 4 & low) | (q >> 2 & high)) << 32);
    }
#if defined(UNLADEN_AVX2)
    // Writes d, dmin, scales and minimums of eight rows into a tile.
    template <class Tile>
    static UNLADEN_INLINE void deal_header(Tile &tile, int half, const uint8_t *p, size_t stride) {
        Bytes32 header[4];
        deal_sixteen(header, p, stride);
        const Bytes32 first = header[1], second = header[2], third = header[3];
        const Bytes32 scales[] = {first.field(0, 63),
                                  with_bits(third.field(0, 15), first, 6, 2, 4)};
        const Bytes32 mins[] = {second.field(0, 63),
                                with_bits(third.field(4, 15), second, 6, 2, 4)};
#pragma GCC unroll 8
        for (int s = 0; s < 8; ++s) {
            put_half(tile.scale[s], half, two_words(scales[s / 4].v, s % 4, -1));
            if (s % 2) put_half(tile.min[s / 2], half, two_words(mins[s / 4].v, s % 4 - 1, s % 4));
        }
        // Gathers each row's d and dmin; then separates all d from all dmin.
        const __m256i pick = _mm256_broadcastsi128_si256(
            _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
        const __m256i apart = _mm256_shuffle_epi8(header[0].v, pick);
        const __m256i all = _mm256_permute4x64_epi64(apart, 0xd8);
        _mm256_store_ps(tile.d + 8 * half, _mm256_cvtph_ps(_mm256_castsi256_si128(all)));
        _mm256_store_ps(tile.dmin + 8 * half, _mm256_cvtph_ps(_mm256_extracti128_si256(all, 1)));
    }
#endif
};

#endif

#if defined(UNLADEN_AVX2)

// One row. The header is three times four bytes, p, q and r. Each word gets a byte of r below a
// byte of p (scales) or q (minimums), and the first four words a byte of p or q alone.
template <class T>
struct RowOfK {
    using Row = Row256;

    // The eight scales, in both halves.
    static UNLADEN_INLINE __m256i scales(__m256i header) {
        const __m128i at = _mm_setr_epi8(4, -1, 5, -1, 6, -1, 7, -1, 12, 4, 13, 5, 14, 6, 15, 7);
        const __m128i mask = _mm_setr_epi16(63, 63, 63, 63, 15, 15, 15, 15);
        const __m256i bytes = _mm256_shuffle_epi8(header, _mm256_broadcastsi128_si256(at));
        const __m256i low = _mm256_and_si256(bytes, _mm256_broadcastsi128_si256(mask));
        const __m256i high = _mm256_srli_epi16(bytes, 10);
        return _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi16(0x30)));
    }
    // The eight minimums, each twice.
    static UNLADEN_INLINE Words16 mins(__m256i header) {
        const __m256i at = _mm256_setr_epi8(-1, 8, -1, 8, -1, 9, -1, 9, -1, 10, -1, 10, -1, 11, -1,
                                            11, 12, 8, 12, 8, 13, 9, 13, 9, 14, 10, 14, 10, 15, 11,
                                            15, 11);
        const __m256i bytes = _mm256_shuffle_epi8(header, at);
        const __m256i down = _mm256_setr_epi32(8, 8, 8, 8, 4, 4, 4, 4);
        const __m256i low_mask = _mm256_setr_m128i(_mm_set1_epi16(63), _mm_set1_epi16(15));
        const __m256i high_mask = _mm256_setr_m128i(_mm_setzero_si128(), _mm_set1_epi16(0x30));
        const __m256i low = _mm256_and_si256(_mm256_srlv_epi32(bytes, down), low_mask);
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(bytes, 10), high_mask);
        return {_mm256_or_si256(low, high)};
    }

    template <int C>
    static UNLADEN_INLINE void dot(float *out, const uint8_t *row, int n_cols, const Row *x,
                                   auto ahead) {
        Total total[C], min[C];
        for (int b = 0; b < n_cols / 256; ++b, row += T::block_bytes) {
            ahead.ask(row, T::block_bytes);
            const Codes<T> w(row);
            const __m256i header = twice128(row), all_scales = scales(header);
            const Words16 all_mins = mins(header);
            const __m128 halves = _mm_cvtph_ps(_mm256_castsi256_si128(header));  // d, dmin, ...
            Sums sums[C];
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) sums[c] = Sums::zero();
#pragma GCC unroll 8
            for (int s = 0; s < 8; ++s) {
                const Bytes32 q = w.codes(s);
                const __m256i pick = _mm256_set1_epi16(int16_t(0x0100 + s * 0x0202));
                const __m256i scale = _mm256_shuffle_epi8(all_scales, pick);
#pragma GCC unroll 4
                for (int c = 0; c < C; ++c) sums[c].add(q.pairs(x[c].q + 256 * b + 32 * s), scale);
            }
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                const __m128 d = _mm_mul_ps(halves, _mm_broadcast_ss(x[c].d + b));
                total[c].add(d, sums[c]);
                min[c].add(_mm_movehdup_ps(d), all_mins.dot(x[c].minus + 16 * b));
            }
        }
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
            total[c].v = _mm256_add_ps(total[c].v, min[c].v);
            out[c] = total[c].sum();
        }
    }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
