// MXFP4: 32 weights in 17 bytes, 4.25 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/bits.h"
#include "backends/cpu/csrc/isa/formats/int8.h"
#include "backends/cpu/csrc/isa/formats/tables.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = 2^(e - 128) * codebook[q], the codebook being E2M1 doubled (OCP Microscaling formats 1.0).
// Byte 0: e; 1: q, byte j holds q[j] and q[j + 16].
struct MXFP4 {
    static constexpr const char *name = "MXFP4";
    static constexpr int block_size = 32, block_bytes = 17;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        const uint32_t e = block[0];
        // The two smallest powers are subnormal.
        const float d = bits::float_of(e < 2 ? 0x00200000u << e : (e - 1) << 23);
        uint8_t q[32];
        bits::look_up_nibbles(block + 1, quants::kvalues_mxfp4, q, q + 16);
        bits::scale<32>(y, d, q);
    }
};

#if defined(UNLADEN_AVX512)

template <>
struct Fields<MXFP4> : FieldSizes<1, 16> {};

template <>
struct InLanes<MXFP4> {
    static constexpr int bias = 16;
    static UNLADEN_INLINE __m512i line(Interleaved w, int i) {
        return look_up(nibble_line(w, 1, i), quants::kvalues_mxfp4, 16);
    }
    static UNLADEN_INLINE __m512 scale(Interleaved w) {
        // 2^(e - 128); the two smallest are subnormal.
        const __m512i e = w.byte(0);
        const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
        const __mmask16 tiny = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
        const __m512i d = _mm512_mask_sllv_epi32(normal, tiny, _mm512_set1_epi32(0x00200000), e);
        return _mm512_castsi512_ps(d);
    }
};

#else

template <>
struct Codes<MXFP4> : NibbleCodes<Codes<MXFP4>, 1> {
    static constexpr bool is_signed = false;
    static constexpr int bias = 12, max_code = 24;
    static constexpr bool has_min = false, scale_is_power = true;
    static Bytes32 decode(Bytes32 nibbles) {
        return nibbles.look_up(quants::kvalues_mxfp4).less(-bias);
    }
    static float d(const uint8_t *b) {
        const uint32_t e = b[0];  // d = 2^(e - 128); the two smallest are subnormal
        return bits::float_of(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    }
#if defined(UNLADEN_AVX2)
    // The scales of eight blocks.
    static UNLADEN_INLINE __m256 scales(const uint8_t *row) {
        uint64_t exponents = 0;
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) exponents |= uint64_t(row[i * MXFP4::block_bytes]) << 8 * i;
        // 2^(e - 128); the two smallest are subnormal.
        const __m256i e = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(int64_t(exponents)));
        const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
        const __m256i tiny = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
        const __m256i is_tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
        return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, tiny, is_tiny));
    }
#endif
};

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
