// Emulates the AVX-512 instructions that kernels use, by AVX2 on halves of registers and in plain
// C++. Kernels of level "avx512" that are compiled with this header run on any processor with AVX2.
// It must be included before everything else.
#pragma once

#include <cmath>

#include "registers.h"

namespace unladen::emulated {

template <class T>
using Z = Of<T, __m512i>;
using F = Of<float, __m512>;
using Halves = Of<__m256i, __m512i>;
using FloatHalves = Of<__m256, __m512>;

template <class Half, class V, class Op, class... More>
inline V by_halves(Op op, V a, More... more) {
    Of<Half, V> to(a);
    for (int i = 0; i < 2; ++i) to.at[i] = op(to.at[i], Of<Half, V>(more).at[i]...);
    return to;
}
template <class Op, class... More>
inline __m512i each_half(Op op, __m512i a, More... more) {
    return by_halves<__m256i>(op, a, more...);
}
template <class Op, class... More>
inline __m512 each_half(Op op, __m512 a, More... more) {
    return by_halves<__m256>(op, a, more...);
}

// A mask with one bit for each element.
template <class T, class Op>
inline uint64_t bits(Op f, __m512i a, __m512i b) {
    const Z<T> first(a), second(b);
    uint64_t found = 0;
    for (int i = 0; i < first.n; ++i) found |= uint64_t(f(first.at[i], second.at[i])) << i;
    return found;
}
// Converts elements to another type, as many as fit into both registers.
template <class To, class From, class V, class W>
inline V convert(W from) {
    const Of<From, W> a(from);
    Of<To, V> to(V{});
    for (int i = 0; i < to.n && i < a.n; ++i) to.at[i] = To(a.at[i]);
    return to;
}
template <class T>
inline __m512i blend(uint64_t mask, __m512i a, __m512i b) {
    Z<T> to(a);
    const Z<T> other(b);
    for (int i = 0; i < to.n; ++i)
        if (mask >> i & 1) to.at[i] = other.at[i];
    return to;
}
inline __m512 blend(uint64_t mask, __m512 a, __m512 b) {
    F to(a);
    const F other(b);
    for (int i = 0; i < 16; ++i)
        if (mask >> i & 1) to.at[i] = other.at[i];
    return to;
}

inline __m512i both(__m256i low, __m256i high) {
    Halves to;
    to.at[0] = low, to.at[1] = high;
    return to;
}
template <class V>
inline V load(const void *p) {
    V v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
// Loads the first elements, for a mask whose ones begin at the lowest bit.
template <class V>
inline V load_first(uint64_t mask, size_t size, const void *p) {
    V v{};
    for (size_t i = 0; i < sizeof v / size; ++i)
        if (mask >> i & 1)
            std::memcpy(reinterpret_cast<char *>(&v) + i * size,
                        static_cast<const char *>(p) + i * size, size);
    return v;
}
template <class V>
inline void store(void *p, V v) { std::memcpy(p, &v, sizeof v); }
inline void mask_store(float *p, uint64_t mask, __m512 v) {
    const F from(v);
    for (int i = 0; i < 16; ++i)
        if (mask >> i & 1) p[i] = from.at[i];
}

inline __m512 fmadd(__m512 a, __m512 b, __m512 c) {
    return each_half([](__m256 x, __m256 y, __m256 z) { return _mm256_fmadd_ps(x, y, z); }, a, b,
                     c);
}
inline __m512i dpbusd(__m512i sum, __m512i codes, __m512i q) {
    const Z<uint8_t> u(codes);
    const Z<int8_t> s(q);
    Z<int32_t> to(sum);
    for (int i = 0; i < 64; ++i) to.at[i / 4] += int32_t(u.at[i]) * s.at[i];
    return to;
}
inline __m512i dpwssd(__m512i sum, __m512i a, __m512i b) {
    return each_half([](__m256i x, __m256i y) { return _mm256_add_epi32(x, y); }, sum,
                     each_half([](__m256i x, __m256i y) { return _mm256_madd_epi16(x, y); }, a, b));
}
inline __m512i shuffle_quarters(__m512i a, __m512i b, int control) {
    const Of<__m128i, __m512i> first(a), second(b);
    Of<__m128i, __m512i> to;
    for (int i = 0; i < 4; ++i) to.at[i] = (i < 2 ? first : second).at[control >> 2 * i & 3];
    return to;
}
template <class Part, class V>
inline V insert(V into, Part part, int i) {
    Of<Part, V> to(into);
    to.at[i] = part;
    return to;
}
template <class Part, class V>
inline Part extract(V from, int i) { return Of<Part, V>(from).at[i]; }
template <class V>
inline V ternary(V a, V b, V c, int table) {
    const Of<uint64_t, V> first(a), second(b), third(c);
    Of<uint64_t, V> to;
    for (int i = 0; i < to.n; ++i) {
        to.at[i] = 0;
        for (int k = 0; k < 8; ++k) {
            if (!(table >> k & 1)) continue;
            to.at[i] |= (k & 4 ? first.at[i] : ~first.at[i]) &
                        (k & 2 ? second.at[i] : ~second.at[i]) &
                        (k & 1 ? third.at[i] : ~third.at[i]);
        }
    }
    return to;
}
// Reduces a register by halves, in the order in which compilers add.
template <class T, class V>
inline T total(V v) {
    Of<T, V> sum(v);
    for (int n = sum.n / 2; n; n /= 2)
        for (int i = 0; i < n; ++i) sum.at[i] += sum.at[i + n];
    return sum.at[0];
}
inline __m512 scalef(__m512 a, __m512 b) {
    F to(a);
    const F power(b);
    for (int i = 0; i < 16; ++i) to.at[i] = std::ldexp(to.at[i], int(std::floor(power.at[i])));
    return to;
}
template <class Op>
inline uint64_t compared(Op compare, __m512 a, __m512 b) {
    const FloatHalves first(a), second(b);
    uint64_t found = 0;
    for (int i = 0; i < 2; ++i)
        found |= uint64_t(_mm256_movemask_ps(compare(first.at[i], second.at[i]))) << 8 * i;
    return found;
}
template <class T>
inline __m512i repeat(T x) {
    Z<T> to;
    for (auto &at : to.at) at = x;
    return to;
}
inline __m512 repeat_float(float x) {
    F to;
    for (auto &at : to.at) at = x;
    return to;
}
inline __m512i bytes_down(__m512i v, int n) {
    const Z<uint8_t> from(v);
    Z<uint8_t> to;
    for (int i = 0; i < 64; ++i) to.at[i] = i % 16 + n < 16 ? from.at[i + n] : 0;
    return to;
}

#define UNLADEN_HALVES(name, of)                                                    \
    inline __m512i name(__m512i a, __m512i b) {                                     \
        return each_half([](__m256i x, __m256i y) { return of(x, y); }, a, b);      \
    }
#define UNLADEN_FLOAT_HALVES(name, of)                                              \
    inline __m512 name(__m512 a, __m512 b) {                                        \
        return each_half([](__m256 x, __m256 y) { return of(x, y); }, a, b);        \
    }
#define UNLADEN_SHIFTED_HALVES(name, of)                                            \
    inline __m512i name(__m512i a, int n) {                                         \
        return each_half([n](__m256i x) { return of(x, n); }, a);                   \
    }

UNLADEN_HALVES(add_epi8, _mm256_add_epi8)
UNLADEN_HALVES(add_epi16, _mm256_add_epi16)
UNLADEN_HALVES(add_epi32, _mm256_add_epi32)
UNLADEN_HALVES(sub_epi8, _mm256_sub_epi8)
UNLADEN_HALVES(sub_epi16, _mm256_sub_epi16)
UNLADEN_HALVES(sub_epi32, _mm256_sub_epi32)
UNLADEN_HALVES(madd_epi16, _mm256_madd_epi16)
UNLADEN_HALVES(maddubs_epi16, _mm256_maddubs_epi16)
UNLADEN_HALVES(mullo_epi32, _mm256_mullo_epi32)
UNLADEN_HALVES(max_epu32, _mm256_max_epu32)
UNLADEN_HALVES(shuffle_epi8, _mm256_shuffle_epi8)
UNLADEN_HALVES(unpackhi_epi32, _mm256_unpackhi_epi32)
UNLADEN_HALVES(unpackhi_epi64, _mm256_unpackhi_epi64)
UNLADEN_HALVES(unpacklo_epi32, _mm256_unpacklo_epi32)
UNLADEN_HALVES(unpacklo_epi64, _mm256_unpacklo_epi64)
UNLADEN_HALVES(and_si512, _mm256_and_si256)
UNLADEN_HALVES(or_si512, _mm256_or_si256)
UNLADEN_HALVES(xor_si512, _mm256_xor_si256)
UNLADEN_FLOAT_HALVES(add_ps, _mm256_add_ps)
UNLADEN_FLOAT_HALVES(sub_ps, _mm256_sub_ps)
UNLADEN_FLOAT_HALVES(mul_ps, _mm256_mul_ps)
UNLADEN_FLOAT_HALVES(div_ps, _mm256_div_ps)
UNLADEN_FLOAT_HALVES(max_ps, _mm256_max_ps)
UNLADEN_FLOAT_HALVES(min_ps, _mm256_min_ps)
UNLADEN_SHIFTED_HALVES(slli_epi16, _mm256_slli_epi16)
UNLADEN_SHIFTED_HALVES(slli_epi32, _mm256_slli_epi32)
UNLADEN_SHIFTED_HALVES(srai_epi16, _mm256_srai_epi16)
UNLADEN_SHIFTED_HALVES(srai_epi32, _mm256_srai_epi32)
UNLADEN_SHIFTED_HALVES(srli_epi16, _mm256_srli_epi16)
UNLADEN_SHIFTED_HALVES(srli_epi32, _mm256_srli_epi32)
UNLADEN_SHIFTED_HALVES(srli_epi64, _mm256_srli_epi64)

// Instructions that move elements between the halves.
template <class V>
inline V srlv_epi16(V a, V n) {
    Of<uint16_t, V> to(a);
    const Of<uint16_t, V> by(n);
    for (int i = 0; i < to.n; ++i) to.at[i] = by.at[i] < 16 ? to.at[i] >> by.at[i] : 0;
    return to;
}
inline __m512i srlv_epi32(__m512i a, __m512i n) {
    return each_half([](__m256i x, __m256i y) { return _mm256_srlv_epi32(x, y); }, a, n);
}
inline __m512i mask_sllv_epi32(__m512i from, uint64_t mask, __m512i a, __m512i n) {
    const auto shift = [](__m256i x, __m256i y) { return _mm256_sllv_epi32(x, y); };
    return blend<int32_t>(mask, from, each_half(shift, a, n));
}
inline __m512i mask_sub_epi8(__m512i from, uint64_t mask, __m512i a, __m512i b) {
    return blend<int8_t>(mask, from, sub_epi8(a, b));
}
inline __m512 mask_div_ps(__m512 from, uint64_t mask, __m512 a, __m512 b) {
    return blend(mask, from, div_ps(a, b));
}
inline __m512 maskz_div_ps(uint64_t mask, __m512 a, __m512 b) {
    return mask_div_ps(__m512{}, mask, a, b);
}
inline __m512 sqrt_ps(__m512 a) {
    return each_half([](__m256 x) { return _mm256_sqrt_ps(x); }, a);
}
inline __m512 to_nearest(__m512 a, int) {
    return each_half([](__m256 x) {
        return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    }, a);
}
inline __m512 abs_ps(__m512 a) {
    return each_half([](__m256 x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }, a);
}
inline __m512 floats(__m512i a) {
    const Halves from(a);
    FloatHalves to;
    for (int i = 0; i < 2; ++i) to.at[i] = _mm256_cvtepi32_ps(from.at[i]);
    return to;
}
inline __m512i integers(__m512 a) {
    const FloatHalves from(a);
    return both(_mm256_cvtps_epi32(from.at[0]), _mm256_cvtps_epi32(from.at[1]));
}
inline __m512 from_half(__m256i a) {
    const Of<__m128i, __m256i> from(a);
    FloatHalves to;
    for (int i = 0; i < 2; ++i) to.at[i] = _mm256_cvtph_ps(from.at[i]);
    return to;
}
inline __m256i to_half(__m512 a, int) {
    const FloatHalves from(a);
    Of<__m128i, __m256i> to;
    for (int i = 0; i < 2; ++i) to.at[i] = _mm256_cvtps_ph(from.at[i], _MM_FROUND_TO_NEAREST_INT);
    return to;
}
inline __m512i compress(uint64_t mask, __m512i a) {
    const Z<int32_t> from(a);
    Z<int32_t> to(__m512i{});
    for (int i = 0, n = 0; i < 16; ++i)
        if (mask >> i & 1) to.at[n++] = from.at[i];
    return to;
}
inline __m512i set4(int d, int c, int b, int a) {
    return repeat<__m128i>(_mm_set_epi32(d, c, b, a));
}

#undef UNLADEN_HALVES
#undef UNLADEN_FLOAT_HALVES
#undef UNLADEN_SHIFTED_HALVES

template <class T>
inline uint64_t any_of(__m512i a, __m512i b) {
    return bits<T>([](T x, T y) { return (x & y) != 0; }, a, b);
}
inline uint64_t less(__m512i a, __m512i b) {
    return bits<int32_t>([](int32_t x, int32_t y) { return x < y; }, a, b);
}
inline uint64_t signs(__m512i a) {
    return bits<int8_t>([](int8_t x, int8_t) { return x < 0; }, a, a);
}
// `predicate` must be a constant.
template <int predicate>
inline uint64_t compare(__m512 a, __m512 b) {
    return compared([](__m256 x, __m256 y) { return _mm256_cmp_ps(x, y, predicate); }, a, b);
}

}  // namespace unladen::emulated

#define _mm512_add_epi8 unladen::emulated::add_epi8
#define _mm512_add_epi16 unladen::emulated::add_epi16
#define _mm512_add_epi32 unladen::emulated::add_epi32
#define _mm512_sub_epi8 unladen::emulated::sub_epi8
#define _mm512_sub_epi16 unladen::emulated::sub_epi16
#define _mm512_sub_epi32 unladen::emulated::sub_epi32
#define _mm512_madd_epi16 unladen::emulated::madd_epi16
#define _mm512_maddubs_epi16 unladen::emulated::maddubs_epi16
#define _mm512_mullo_epi32 unladen::emulated::mullo_epi32
#define _mm512_max_epu32 unladen::emulated::max_epu32
#define _mm512_shuffle_epi8 unladen::emulated::shuffle_epi8
#define _mm512_unpackhi_epi32 unladen::emulated::unpackhi_epi32
#define _mm512_unpackhi_epi64 unladen::emulated::unpackhi_epi64
#define _mm512_unpacklo_epi32 unladen::emulated::unpacklo_epi32
#define _mm512_unpacklo_epi64 unladen::emulated::unpacklo_epi64
#define _mm512_and_si512 unladen::emulated::and_si512
#define _mm512_or_si512 unladen::emulated::or_si512
#define _mm512_xor_si512 unladen::emulated::xor_si512
#define _mm512_add_ps unladen::emulated::add_ps
#define _mm512_sub_ps unladen::emulated::sub_ps
#define _mm512_mul_ps unladen::emulated::mul_ps
#define _mm512_div_ps unladen::emulated::div_ps
#define _mm512_max_ps unladen::emulated::max_ps
#define _mm512_min_ps unladen::emulated::min_ps
#define _mm512_slli_epi16 unladen::emulated::slli_epi16
#define _mm512_slli_epi32 unladen::emulated::slli_epi32
#define _mm512_srai_epi16 unladen::emulated::srai_epi16
#define _mm512_srai_epi32 unladen::emulated::srai_epi32
#define _mm512_srli_epi16 unladen::emulated::srli_epi16
#define _mm512_srli_epi32 unladen::emulated::srli_epi32
#define _mm512_srli_epi64 unladen::emulated::srli_epi64
#define _mm512_srlv_epi16 unladen::emulated::srlv_epi16<__m512i>
#define _mm256_srlv_epi16 unladen::emulated::srlv_epi16<__m256i>
#define _mm512_srlv_epi32 unladen::emulated::srlv_epi32
#define _mm512_mask_sllv_epi32 unladen::emulated::mask_sllv_epi32
#define _mm512_mask_sub_epi8 unladen::emulated::mask_sub_epi8
#define _mm512_mask_div_ps unladen::emulated::mask_div_ps
#define _mm512_maskz_div_ps unladen::emulated::maskz_div_ps
#define _mm512_sqrt_ps unladen::emulated::sqrt_ps
#define _mm512_roundscale_ps unladen::emulated::to_nearest
#define _mm512_abs_ps unladen::emulated::abs_ps
#define _mm512_cvtepi32_ps unladen::emulated::floats
#define _mm512_cvtps_epi32 unladen::emulated::integers
#define _mm512_cvtph_ps unladen::emulated::from_half
#define _mm512_cvtps_ph unladen::emulated::to_half
#define _mm512_maskz_compress_epi32 unladen::emulated::compress
#define _mm512_set4_epi32 unladen::emulated::set4
#define _mm512_fmadd_ps unladen::emulated::fmadd
#define _mm512_dpbusd_epi32 unladen::emulated::dpbusd
#define _mm512_dpwssd_epi32 unladen::emulated::dpwssd
#define _mm512_shuffle_i32x4 unladen::emulated::shuffle_quarters
#define _mm512_scalef_ps unladen::emulated::scalef
#define _mm512_ternarylogic_epi32 unladen::emulated::ternary<__m512i>
#define _mm256_ternarylogic_epi32 unladen::emulated::ternary<__m256i>
#define _mm512_bsrli_epi128 unladen::emulated::bytes_down
#define _mm512_set1_epi8 unladen::emulated::repeat<int8_t>
#define _mm512_set1_epi16 unladen::emulated::repeat<int16_t>
#define _mm512_set1_epi32 unladen::emulated::repeat<int32_t>
#define _mm512_set1_epi64 unladen::emulated::repeat<int64_t>
#define _mm512_set1_ps unladen::emulated::repeat_float
#define _mm512_broadcast_i32x4 unladen::emulated::repeat<__m128i>
#define _mm512_broadcast_i64x4 unladen::emulated::repeat<__m256i>
#define _mm512_load_ps unladen::emulated::load<__m512>
#define _mm512_loadu_ps unladen::emulated::load<__m512>
#define _mm512_load_si512 unladen::emulated::load<__m512i>
#define _mm512_loadu_si512 unladen::emulated::load<__m512i>
#define _mm512_store_ps unladen::emulated::store<__m512>
#define _mm512_storeu_ps unladen::emulated::store<__m512>
#define _mm512_store_si512 unladen::emulated::store<__m512i>
#define _mm512_storeu_si512 unladen::emulated::store<__m512i>
#define _mm512_mask_storeu_ps unladen::emulated::mask_store
#define _mm512_extracti32x4_epi32 unladen::emulated::extract<__m128i>
#define _mm512_extracti64x4_epi64 unladen::emulated::extract<__m256i>
#define _mm512_inserti32x4 unladen::emulated::insert<__m128i, __m512i>
#define _mm512_inserti64x4 unladen::emulated::insert<__m256i, __m512i>
#define _mm512_permutex2var_epi16 unladen::emulated::choose<uint16_t, __m512i>
#define _mm512_permutex2var_epi32 unladen::emulated::choose<uint32_t, __m512i>
#define _mm512_reduce_add_epi32 unladen::emulated::total<int32_t, __m512i>
#define _mm512_reduce_add_ps unladen::emulated::total<float, __m512>
#define _mm512_test_epi8_mask unladen::emulated::any_of<uint8_t>
#define _mm512_test_epi16_mask unladen::emulated::any_of<uint16_t>
#define _mm512_test_epi32_mask unladen::emulated::any_of<uint32_t>
#define _mm512_movepi8_mask unladen::emulated::signs
#define _mm512_cmplt_epi32_mask unladen::emulated::less
#define _mm512_cvtepi16_epi8 unladen::emulated::convert<int8_t, int16_t, __m256i, __m512i>
#define _mm512_cvtepi32_epi8 unladen::emulated::convert<int8_t, int32_t, __m128i, __m512i>
#define _mm512_cvtepi32_epi16 unladen::emulated::convert<int16_t, int32_t, __m256i, __m512i>
#define _mm512_cvtepi64_epi32 unladen::emulated::convert<int32_t, int64_t, __m256i, __m512i>
#define _mm512_cvtepi8_epi16 unladen::emulated::convert<int16_t, int8_t, __m512i, __m256i>
#define _mm512_cvtepi8_epi32 unladen::emulated::convert<int32_t, int8_t, __m512i, __m128i>
#define _mm512_cvtepu16_epi32 unladen::emulated::convert<int32_t, uint16_t, __m512i, __m256i>
#define _mm512_cvtepu8_epi16 unladen::emulated::convert<int16_t, uint8_t, __m512i, __m256i>
#define _mm512_cvtepu8_epi32 unladen::emulated::convert<int32_t, uint8_t, __m512i, __m128i>
#define _mm512_setzero_ps() __m512{}
#define _mm512_setzero_si512() __m512i{}
#define _mm512_castps_si512(v) ((__m512i)(v))
#define _mm512_castsi512_ps(v) ((__m512)(v))
#define _mm512_castsi512_si128(v) unladen::emulated::extract<__m128i>(v, 0)
#define _mm512_castsi512_si256(v) unladen::emulated::extract<__m256i>(v, 0)
#define _mm512_castsi128_si512(v) unladen::emulated::insert(__m512i{}, __m128i(v), 0)
#define _mm512_castsi256_si512(v) unladen::emulated::insert(__m512i{}, __m256i(v), 0)
#define _mm512_zextsi256_si512(v) unladen::emulated::insert(__m512i{}, __m256i(v), 0)
#define _mm512_broadcastss_ps(v) unladen::emulated::repeat_float(_mm_cvtss_f32(v))
#define _mm512_permutexvar_epi16(i, v) unladen::emulated::choose<uint16_t>(v, i, v)
#define _mm256_permutexvar_epi16(i, v) unladen::emulated::choose<uint16_t>(v, i, v)
#define _mm512_mask_blend_epi8(m, a, b) unladen::emulated::blend<int8_t>(m, a, b)
#define _mm512_mask_blend_epi16(m, a, b) unladen::emulated::blend<int16_t>(m, a, b)
#define _mm512_mask_blend_epi64(m, a, b) unladen::emulated::blend<int64_t>(m, a, b)
#define _mm512_mask_mov_epi16(a, m, b) unladen::emulated::blend<int16_t>(m, a, b)
#define _mm512_maskz_loadu_ps(m, p) unladen::emulated::load_first<__m512>(m, 4, p)
#define _mm512_maskz_loadu_epi32(m, p) unladen::emulated::load_first<__m512i>(m, 4, p)
#define _mm512_maskz_loadu_epi8(m, p) unladen::emulated::load_first<__m512i>(m, 1, p)
#define _mm256_maskz_loadu_epi16(m, p) unladen::emulated::load_first<__m256i>(m, 2, p)
#define _mm512_cmp_ps_mask(a, b, predicate) unladen::emulated::compare<predicate>(a, b)
#define _mm256_cvtepi16_epi8(v) unladen::emulated::convert<int8_t, int16_t, __m128i, __m256i>(v)
#define _cvtu64_mask64(m) __mmask64(m)
#define _cvtmask64_u64(m) uint64_t(m)
#define _cvtu32_mask8(m) __mmask8(m)

// The macros that the sources test.
#define __AVX512F__ 1
#define __AVX512VNNI__ 1
#define UNLADEN_EMULATED 1
