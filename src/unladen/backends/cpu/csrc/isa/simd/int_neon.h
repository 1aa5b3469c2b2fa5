// The vectors of int.h in NEON registers.
#pragma once

#include "backends/cpu/csrc/isa/activations/layout.h"
#include "backends/cpu/csrc/isa/formats/bits.h"

namespace unladen::cpu::UNLADEN_ISA {

// Adds the products of 16 signed bytes: four lanes, each the sum of four products.
UNLADEN_INLINE int32x4_t add_dots(int32x4_t sums, int8x16_t a, int8x16_t b) {
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(sums, a, b);
#else
    const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
    const int32x4_t high = vpaddlq_s16(vmull_high_s8(a, b));
    return vaddq_s32(sums, vpaddq_s32(low, high));
#endif
}

struct Bytes32 {
    uint8x16_t v[2];

    static Bytes32 load(const void *p) {
        const uint8_t *bytes = static_cast<const uint8_t *>(p);
        return {{vld1q_u8(bytes), vld1q_u8(bytes + 16)}};
    }
    static Bytes32 of(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
        return {{vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(a), vcreate_u64(b))),
                 vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(c), vcreate_u64(d)))}};
    }
    // Nibbles of 16 bytes, the low ones first.
    static Bytes32 nibbles(const uint8_t *p) {
        const uint8x16_t codes = vld1q_u8(p);
        return {{vandq_u8(codes, vdupq_n_u8(15)), vshrq_n_u8(codes, 4)}};
    }
    // 0xff where a bit of `set` is 1, else 0.
    static Bytes32 where(uint32_t set) {
        static constexpr uint8_t bits[16] = {1, 2, 4, 8, 16, 32, 64, 128,
                                             1, 2, 4, 8, 16, 32, 64, 128};
        const uint8x16_t bit = vld1q_u8(bits);
        const uint8x16_t first = vcombine_u8(vdup_n_u8(uint8_t(set)), vdup_n_u8(uint8_t(set >> 8)));
        const uint8x16_t second =
            vcombine_u8(vdup_n_u8(uint8_t(set >> 16)), vdup_n_u8(uint8_t(set >> 24)));
        return {{vtstq_u8(first, bit), vtstq_u8(second, bit)}};
    }
    // The bytes, negated where a bit of `set` is 1.
    Bytes32 negated(uint32_t set) const {
        const Bytes32 minus = where(set);
        return {{vsubq_u8(veorq_u8(v[0], minus.v[0]), minus.v[0]),
                 vsubq_u8(veorq_u8(v[1], minus.v[1]), minus.v[1])}};
    }
    template <class F>
    Bytes32 each(F f) const {
        return {{f(v[0]), f(v[1])}};
    }
    Bytes32 field(int shift, int mask) const {
        return each([=](uint8x16_t b) {
            return vandq_u8(vshlq_u8(b, vdupq_n_s8(int8_t(-shift))), vdupq_n_u8(uint8_t(mask)));
        });
    }
    Bytes32 up(int shift) const {
        return each([=](uint8x16_t b) { return vshlq_u8(b, vdupq_n_s8(int8_t(shift))); });
    }
    Bytes32 plus(Bytes32 b) const { return {{vaddq_u8(v[0], b.v[0]), vaddq_u8(v[1], b.v[1])}}; }
    Bytes32 less(int bias) const {
        return each([=](uint8x16_t b) { return vsubq_u8(b, vdupq_n_u8(uint8_t(bias))); });
    }
    // Products modulo 256.
    Bytes32 times(Bytes32 b) const { return {{vmulq_u8(v[0], b.v[0]), vmulq_u8(v[1], b.v[1])}}; }
    // First digits of fractions of 256 in base 3.
    Bytes32 first_thirds() const {
        return each([](uint8x16_t b) {
            const uint8x16_t one = vcgeq_u8(b, vdupq_n_u8(86)), two = vcgeq_u8(b, vdupq_n_u8(171));
            return vsubq_u8(vdupq_n_u8(0), vaddq_u8(one, two));
        });
    }
    Bytes32 look_up(const int8_t *codebook) const {
        const uint8x16_t values = vreinterpretq_u8_s8(vld1q_s8(codebook));
        return each([=](uint8x16_t b) { return vqtbl1q_u8(values, b); });
    }
    int8x16_t codes(int half) const { return vreinterpretq_s8_u8(v[half]); }
};

// Four 32-bit sums.
struct Sums {
    int32x4_t v;
    static Sums zero() { return {vdupq_n_s32(0)}; }
    Sums times(int factor) const { return {vmulq_n_s32(v, factor)}; }
    void add_products(Bytes32 w, const int8_t *x) {
        v = add_dots(v, w.codes(0), vld1q_s8(x));
        v = add_dots(v, w.codes(1), vld1q_s8(x + 16));
    }
};

struct Words16 {
    int16x8_t v[2];

    static Words16 of_signed(int8x16_t bytes) {
        return {{vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes)}};
    }
    static Words16 of_signed(const uint8_t *bytes) {
        return of_signed(vreinterpretq_s8_u8(vld1q_u8(bytes)));
    }
    static Words16 of_signed(uint64_t first, uint64_t second) {
        return of_signed(vreinterpretq_s8_u64(vcombine_u64(vcreate_u64(first),
                                                           vcreate_u64(second))));
    }
    static Words16 twice(uint64_t bytes) {
        const uint8x8_t b = vcreate_u8(bytes);
        const auto words = [](uint8x8_t two) { return vreinterpretq_s16_u16(vmovl_u8(two)); };
        return {{words(vzip1_u8(b, b)), words(vzip2_u8(b, b))}};
    }
    template <class F>
    Words16 each(F f) const {
        return {{f(v[0]), f(v[1])}};
    }
    Words16 less(int b) const {
        return each([=](int16x8_t w) { return vsubq_s16(w, vdupq_n_s16(int16_t(b))); });
    }
    Words16 field(int shift, int mask) const {
        return each([=](int16x8_t w) {
            const uint16x8_t down =
                vshlq_u16(vreinterpretq_u16_s16(w), vdupq_n_s16(int16_t(-shift)));
            return vreinterpretq_s16_u16(vandq_u16(down, vdupq_n_u16(uint16_t(mask))));
        });
    }
    Sums dot(const int16_t *other) const {
        int32x4_t sums = vdupq_n_s32(0);
        for (int i = 0; i < 2; ++i) {
            const int16x8_t x = vld1q_s16(other + 8 * i);
            sums = vmlal_s16(sums, vget_low_s16(v[i]), vget_low_s16(x));
            sums = vmlal_high_s16(sums, v[i], x);
        }
        return {sums};
    }
    Bytes32 bytes() const {
        return {{vreinterpretq_u8_s16(v[0]), vreinterpretq_u8_s16(v[1])}};
    }
};

// Sums of products of 256 codes up to 3.
struct SmallSums {
    Sums all = Sums::zero();
    void add_products(Bytes32 w, const int8_t *x) { all.add_products(w, x); }
    void add_to(Sums &sums) const { sums.v = vaddq_s32(sums.v, all.v); }
};

// Adds to sums the products of codes and x, the first 16 times word 2 s of scales, the others times
// the next.
struct Scales {
    int16_t words[16];
    explicit Scales(Words16 w) {
        vst1q_s16(words, w.v[0]);
        vst1q_s16(words + 8, w.v[1]);
    }
    template <bool>
    void add_products(Sums &sums, Bytes32 codes, const int8_t *x, int s) const {
        for (int half = 0; half < 2; ++half) {
            const int32x4_t part =
                add_dots(vdupq_n_s32(0), codes.codes(half), vld1q_s8(x + 16 * half));
            sums.v = vmlaq_n_s32(sums.v, part, words[2 * s + half]);
        }
    }
};

// Four float32 sums.
struct Total {
    float32x4_t v = vdupq_n_f32(0.0f);
    void add(float d, Sums sums) { v = vfmaq_n_f32(v, vcvtq_f32_s32(sums.v), d); }
    float sum() const { return vaddvq_f32(v); }
};

}  // namespace unladen::cpu::UNLADEN_ISA
