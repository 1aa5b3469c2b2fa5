// Q8_0: 32 weights in 34 bytes, 8.5 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"
#include "backends/cpu/csrc/isa/formats/int8.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * q. Byte 0: d (float16); 2: q (int8).
struct Q8_0 {
    static constexpr const char *name = "Q8_0";
    static constexpr int block_size = 32, block_bytes = 34;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        bits::scale<32>(y, bits::half(block), block + 2);
    }
};

#if defined(UNLADEN_SCREENS)
template <>
inline constexpr int rest_bytes_of<Q8_0> = 12;

// A coarse code stands for the middle of eight codes. Sums with the bias of codes are rounded, too.
inline void add_squares(Squares &to, const uint8_t *block, Q8_0) {
    __m256i lacking = _mm256_setzero_si256();
    for (int i = 0; i < 32; i += 16) {
        const __m256i q = _mm256_cvtepi8_epi16(load128(block + 2 + i));
        const __m256i low = _mm256_and_si256(q, _mm256_set1_epi16(7));
        lacking = _mm256_add_epi32(lacking, squares(_mm256_sub_epi16(low, _mm256_set1_epi16(4))));
    }
    const double d = bits::half(block), d2 = d * d;
    to.lacking += d2 * total(lacking);
    to.all += d2 * (32 * 256 * 256);
}

#endif

#if defined(UNLADEN_AVX512)

template <>
struct Fields<Q8_0> : FieldSizes<2, 16, 16> {};

template <>
struct InLanes<Q8_0> {
    static constexpr int bias = 128;
    // Codes that need no decoding are read 3 % faster if they are prefetched into L2: half of the
    // loads cross a line.
    static constexpr size_t rolled_ahead = 4096;
    static constexpr bool rolled_into_l1 = false;
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        return _mm512_xor_si512(w.four(2 + 4 * i), all_bytes(0x80));
    }
    static UNLADEN_INLINE __m512 scale(Interleaved w) { return w.half(0); }
};

struct DividedQ80 : FiveBits<2, 3> {
    static constexpr int bias = 128;
    static constexpr size_t rolled_ahead = 4096;
    static UNLADEN_INLINE __m512 scale(Interleaved w) { return w.half(0); }
};

template <>
struct InLanes<Coarse<Q8_0>> : DividedQ80 {
    static constexpr int lacks = 4;
};

// The three lowest bits are in planes as Q3_K's codes are.
template <>
struct InLanes<Whole<Q8_0>> : DividedQ80 {
    static constexpr int n_rest = 3;
    static UNLADEN_INLINE __m512i line(CoarseAndRest w, int i) {
        const auto plane = [=](int j) __attribute__((always_inline)) {
            return load512(w.rest + 64 * j);
        };
        return either(FiveBits::line(w, i), ThreePlanes::line(plane, i));
    }
    static UNLADEN_INLINE __m512i code(Interleaved block, int i) {
        return InLanes<Q8_0>::line(block, i);
    }
    static UNLADEN_INLINE void join_rest(const __m512i (&q)[8], __m512i (&rest)[3]) {
        __m512i low[8];
        for (int j = 0; j < 8; ++j) low[j] = masked(q[j], 0x07);
        ThreePlanes::join(low, rest);
    }
};

#else

template <>
struct Codes<Q8_0> {
    static constexpr bool is_signed = true;
    static constexpr int bias = 0, max_code = 127;
    static constexpr bool has_min = false;
    static Bytes32 codes(const uint8_t *b) { return Bytes32::load(b + 2); }
    static float d(const uint8_t *b) { return bits::half(b); }
};

#endif

#if defined(UNLADEN_AVX2)

// 32 codes from the planes at p and at `rest`.
UNLADEN_INLINE Bytes32 whole_codes(Q8_0, const uint8_t *p, const uint8_t *rest, int s) {
    return highest_five(p, s).up(3).plus(ThreePlanes::line(RowPlanes{rest}, s)).less(128);
}

// The byte at which the planes of a divided row begin, after the scales. The five bits of a code
// are the highest of the signed code plus 128.
constexpr int q8_0_planes = 16;

template <>
struct Codes<Coarse<Q8_0>> {
    static constexpr bool is_signed = false, has_min = false;
    static constexpr int max_code = 31;
    static constexpr float bias = 15.5f;
};

template <>
struct EightBlocks<Coarse<Q8_0>> {
    const uint8_t *p, *rest;

    UNLADEN_INLINE __m256 scales() const {
        return _mm256_mul_ps(_mm256_cvtph_ps(load128(p)), _mm256_set1_ps(8));
    }
    UNLADEN_INLINE Bytes32 codes(int i) const { return highest_five(p + q8_0_planes, i); }
};

template <>
struct Codes<Whole<Q8_0>> : Codes<Q8_0> {};

template <>
struct EightBlocks<Whole<Q8_0>> {
    const uint8_t *p, *rest;

    UNLADEN_INLINE __m256 scales() const { return _mm256_cvtph_ps(load128(p)); }
    UNLADEN_INLINE Bytes32 codes(int i) const {
        return whole_codes(Q8_0(), p + q8_0_planes, rest, i);
    }
};

template <>
struct Divided<Q8_0> {
    static constexpr int low_bits = 3, planes = q8_0_planes, n_rest = 3;

    static void codes(Bytes32 (&q)[8], const uint8_t *w) {
        for (int i = 0; i < 8; ++i) q[i] = Codes<Q8_0>::codes(w + i * Q8_0::block_bytes).less(128);
    }
    static void put_header(uint8_t *to, const uint8_t *w) {
        for (int i = 0; i < 8; ++i) std::memcpy(to + 2 * i, w + i * Q8_0::block_bytes, 2);
    }
    static void join_rest(const Bytes32 (&low)[8], Bytes32 (&rest)[3]) {
        ThreePlanes::join(low, rest);
    }
    template <class Tile>
    static void deal_header(Tile &tile, int half, DividedRows rows) {
        for (int b = 0; b < 8; ++b) {
            deal_halves(tile.block[b].scale + 8 * half, rows.p + 2 * b, rows.stride);
        }
    }
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
