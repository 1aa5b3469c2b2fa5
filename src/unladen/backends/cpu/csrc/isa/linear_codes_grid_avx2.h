// Codes<T> of the formats with grids, on AVX2: the indices, signs and scales of a block are taken
// apart many at a time, and entries go from the grid to where they are needed.
#pragma once

#include "backends/cpu/csrc/isa/linear_codes.h"
#include "backends/cpu/csrc/isa/linear_grid_bits.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class Index>
UNLADEN_INLINE __m256i four_entries(const uint64_t *grid, const Index *i) {
    const auto two = [=](int k) {
        const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(grid + i[k]));
        return _mm_loadh_pi(_mm_castsi128_ps(low),
                            reinterpret_cast<const __m64 *>(grid + i[k + 1]));
    };
    return _mm256_castps_si256(_mm256_setr_m128(two(0), two(2)));
}
// Loads that fill a register with an entry, and blends: few units can move bytes in registers.
template <class Index>
UNLADEN_INLINE __m256i eight_entries(const uint32_t *grid, const Index *i) {
    const auto entry = [=](int k) { return _mm256_set1_epi32(int32_t(grid[i[k]])); };
    const auto two = [=](int k) { return _mm256_blend_epi32(entry(k), entry(k + 1), 0xaa); };
    return _mm256_blend_epi32(_mm256_blend_epi32(two(0), two(2), 0xcc),
                              _mm256_blend_epi32(two(4), two(6), 0xcc), 0xf0);
}

// Codes as their sizes, and bytes below zero where a code is.
struct Signed32 {
    __m256i sizes, minus;
    operator Bytes32() const {
        return {_mm256_sub_epi8(_mm256_xor_si256(sizes, minus), minus)};
    }
    __m256i signed_pairs(const int8_t *x) const {
        const __m256i sign = _mm256_or_si256(minus, _mm256_set1_epi8(1));
        return _mm256_maddubs_epi16(sizes, _mm256_sign_epi8(load256(x), sign));
    }
};

// Has numbers stored: compilers would take them out of a register one by one, which is slower than
// to load them.
template <class Number, int n>
UNLADEN_INLINE void settle(Number (&numbers)[n]) {
    __asm__("" : "+m"(numbers));
}

template <class T>
struct GridCodes {
    static constexpr int sub = T::sub;
    static constexpr bool has_min = false, is_stored = true;  // what codes() loads
    const uint8_t *b;
    __m256i words;
    GridCodes(const uint8_t *block, __m256i steps) : b(block), words(odd_scales(steps)) {}
    float d() const { return T::unit * T::d(b); }
    Words16 scales() const { return {words}; }
};

template <class T>
struct SignedCodes : GridCodes<T> {
    static constexpr int bias = 0, max_code = T::max_code;
    static constexpr bool is_signed = true;
    using GridCodes<T>::GridCodes;
};

// Signs that have 7 bits for eight codes.
template <class T>
struct PackedSigns : SignedCodes<T> {
    alignas(32) uint32_t signs[8];
    PackedSigns(const uint8_t *block, __m256i steps, __m256i sevens)
        : SignedCodes<T>(block, steps) {
        _mm256_store_si256(reinterpret_cast<__m256i *>(signs), with_eighth(sevens));
        settle(signs);
    }
    // In 32 bits four times 7, and above them the step of the scale.
    PackedSigns(const uint8_t *block, __m256i rest)
        : PackedSigns(block, two_words(_mm256_srli_epi32(rest, 28)), sevens(rest)) {}
    Signed32 with_sign(__m256i sizes, int s) const { return {sizes, Bytes32::where(signs[s]).v}; }

private:
    static __m256i sevens(__m256i rest) {
        const auto part = [=](__m256i v, uint32_t mask) {
            return _mm256_and_si256(v, _mm256_set1_epi32(int32_t(mask)));
        };
        return _mm256_or_si256(_mm256_or_si256(part(rest, 0x7f),
                                               part(_mm256_slli_epi32(rest, 1), 0x7f00)),
                               _mm256_or_si256(part(_mm256_slli_epi32(rest, 2), 0x7f0000),
                                               part(_mm256_slli_epi32(rest, 3), 0x7f000000)));
    }
};

template <>
struct Codes<IQ2_XXS> : PackedSigns<IQ2_XXS> {
    explicit Codes(const uint8_t *block)
        : PackedSigns(block, odd_dwords(load256(block + 2), load256(block + 34))) {}
    Signed32 codes(int s) const {
        return with_sign(four_entries(quants::iq2xxs_grid, b + 2 + 8 * s), s);
    }

private:
    static __m256i odd_dwords(__m256i first, __m256i second) {
        const __m256 both = _mm256_shuffle_ps(_mm256_castsi256_ps(first),
                                              _mm256_castsi256_ps(second), 0xdd);
        return _mm256_permute4x64_epi64(_mm256_castps_si256(both), 0xd8);
    }
};

template <>
struct Codes<IQ3_XXS> : PackedSigns<IQ3_XXS> {
    explicit Codes(const uint8_t *block) : PackedSigns(block, load256(block + 66)) {}
    Signed32 codes(int s) const {
        return with_sign(eight_entries(quants::iq3xxs_grid, b + 2 + 8 * s), s);
    }
};

template <>
struct Codes<IQ2_XS> : PackedSigns<IQ2_XS> {
    alignas(32) uint16_t index[32];
    explicit Codes(const uint8_t *block) : Codes(block, load256(block + 2), load256(block + 34)) {}
    Signed32 codes(int s) const {
        return with_sign(four_entries(quants::iq2xs_grid, index + 4 * s), s);
    }

private:
    Codes(const uint8_t *block, __m256i first, __m256i second)
        : PackedSigns(block, nibble_words(block + 66), sevens(first, second)) {
        const __m256i nine = _mm256_set1_epi16(511);
        __m256i *to = reinterpret_cast<__m256i *>(index);
        _mm256_store_si256(to, _mm256_and_si256(first, nine));
        _mm256_store_si256(to + 1, _mm256_and_si256(second, nine));
        settle(index);
    }
    static __m256i sevens(__m256i first, __m256i second) {
        const __m256i both = _mm256_packus_epi16(_mm256_srli_epi16(first, 9),
                                                 _mm256_srli_epi16(second, 9));
        return _mm256_permute4x64_epi64(both, 0xd8);
    }
};

// Words of eight bits from `low` and, above them, those of `high`.
UNLADEN_INLINE void put_indices(uint16_t *to, const uint8_t *low, __m256i high) {
    const __m256i words = _mm256_cvtepu8_epi16(load128(low));
    _mm256_store_si256(reinterpret_cast<__m256i *>(to), _mm256_or_si256(words, high));
}
// The words or bytes that `pick` has from 16 bytes, each times the power of two in the same place.
UNLADEN_INLINE __m256i moved_up(__m128i bytes, __m256i pick, __m256i powers) {
    const __m256i picked = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), pick);
    return _mm256_mullo_epi16(picked, powers);
}
// Each of four words, or bytes, four times: what shuffles them from number `first` on.
UNLADEN_INLINE __m256i four_times(int64_t word, int64_t step, int first) {
    return _mm256_setr_epi64x(word + step * first, word + step * (first + 1),
                              word + step * (first + 2), word + step * (first + 3));
}
constexpr int64_t word_of_byte = int64_t(0x8000800080008000);
constexpr int64_t next_byte = 0x0001000100010001;
constexpr int64_t whole_word = 0x0100010001000100, next_word = 0x0202020202020202;

template <>
struct Codes<IQ2_S> : SignedCodes<IQ2_S> {
    alignas(32) uint16_t index[32];
    explicit Codes(const uint8_t *block) : SignedCodes(block, nibble_words(block + 74)) {
        const __m128i top = _mm_cvtsi64_si128(bits::load<int64_t>(block + 66));
        const __m256i powers = _mm256_set1_epi64x(0x0004001000400100);
        for (int half = 0; half < 2; ++half) {
            const __m256i pick = four_times(word_of_byte, next_byte, 4 * half);
            const __m256i high =
                _mm256_and_si256(moved_up(top, pick, powers), _mm256_set1_epi16(0x300));
            put_indices(index + 16 * half, b + 2 + 16 * half, high);
        }
        settle(index);
    }
    Signed32 codes(int s) const {
        return {four_entries(quants::iq2s_grid, index + 4 * s),
                Bytes32::where(bits::load<uint32_t>(b + 34 + 4 * s)).v};
    }
};

template <>
struct Codes<IQ3_S> : SignedCodes<IQ3_S> {
    alignas(32) uint16_t index[64];
    explicit Codes(const uint8_t *block) : SignedCodes(block, nibble_pairs(block + 106)) {
        const __m256i bit = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048,
                                              4096, 8192, 16384, -32768);
        for (int i = 0; i < 4; ++i) {
            const __m256i ninths = _mm256_set1_epi16(bits::load<int16_t>(b + 66 + 2 * i));
            const __m256i set = _mm256_cmpeq_epi16(_mm256_and_si256(ninths, bit), bit);
            put_indices(index + 16 * i, b + 2 + 16 * i,
                        _mm256_and_si256(set, _mm256_set1_epi16(256)));
        }
        settle(index);
    }
    Signed32 codes(int s) const {
        return {eight_entries(quants::iq3s_grid, index + 8 * s),
                Bytes32::where(bits::load<uint32_t>(b + 74 + 4 * s)).v};
    }
};

// Eight times the entries plus the bias.
struct IQ1Grid {
    alignas(64) uint64_t of[2048] = {};
    constexpr IQ1Grid() {
        for (int i = 0; i < 2048; ++i) {
            for (int k = 0; k < 64; k += 8) {
                const int code = 8 * int8_t(quants::iq1s_grid[i] >> k) + iq1_bias;
                of[i] |= uint64_t(code) << k;
            }
        }
    }
};
inline constexpr IQ1Grid iq1_grid;

template <class T>
struct ShiftedCodes : GridCodes<T> {
    static constexpr int bias = iq1_bias, max_code = iq1_bias + T::max_code;
    static constexpr bool is_signed = false;
    alignas(32) uint16_t index[32];
    alignas(32) uint32_t shift[8];
    using GridCodes<T>::GridCodes;

    __m256i entries(int s) const { return four_entries(iq1_grid.of, index + 4 * s); }
    // 1 or -1 in each byte, the latter where `down` has bits.
    void put_shifts(__m256i down) {
        _mm256_store_si256(reinterpret_cast<__m256i *>(shift),
                           _mm256_or_si256(down, _mm256_set1_epi8(1)));
        settle(shift);
    }
};

template <>
struct Codes<IQ1_S> : ShiftedCodes<IQ1_S> {
    explicit Codes(const uint8_t *block) : ShiftedCodes(block, iq1_s_steps(block)) {
        const __m128i rest = load128(block + 34);
        put_shifts(_mm256_cvtepi16_epi32(_mm_srai_epi16(rest, 15)));
        const __m256i powers = _mm256_set1_epi64x(0x0004002001000800);
        for (int half = 0; half < 2; ++half) {
            const __m256i pick = four_times(whole_word, next_word, 4 * half);
            const __m256i high = _mm256_srli_epi16(moved_up(rest, pick, powers), 3);
            put_indices(index + 16 * half, b + 2 + 16 * half,
                        _mm256_and_si256(high, _mm256_set1_epi16(0x700)));
        }
        settle(index);
    }
    Bytes32 codes(int s) const {
        return {_mm256_add_epi8(entries(s), _mm256_set1_epi32(int32_t(shift[s])))};
    }
};

template <>
struct Codes<IQ1_M> : ShiftedCodes<IQ1_M> {
    explicit Codes(const uint8_t *block) : ShiftedCodes(block, steps(block + 48)) {
        const __m128i packed = load128(block + 32), mask = _mm_set1_epi8(15);
        const __m128i even = _mm_and_si128(packed, mask);
        const __m128i odd = _mm_and_si128(_mm_srli_epi16(packed, 4), mask);
        const __m256i nibbles = _mm256_setr_m128i(_mm_unpacklo_epi8(even, odd),
                                                  _mm_unpackhi_epi8(even, odd));
        const __m256i top = _mm256_and_si256(nibbles, _mm256_set1_epi8(7));
        put_shifts(_mm256_cmpgt_epi8(nibbles, _mm256_set1_epi8(7)));
        const auto high = [](__m128i bytes) {
            return _mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 8);
        };
        put_indices(index, block, high(_mm256_castsi256_si128(top)));
        put_indices(index + 16, block + 16, high(_mm256_extracti128_si256(top, 1)));
        settle(index);
    }
    Bytes32 codes(int s) const {
        const __m256i pick = _mm256_setr_epi64x(0, bits::ones, 2 * bits::ones, 3 * bits::ones);
        const __m256i all = _mm256_set1_epi32(int32_t(shift[s]));
        return {_mm256_add_epi8(entries(s), _mm256_shuffle_epi8(all, pick))};
    }

private:
    // Three bits each, four in a word.
    static __m256i steps(const uint8_t *p) {
        const __m128i packed = _mm_cvtsi64_si128(bits::load<int64_t>(p));
        const __m256i powers = _mm256_set1_epi64x(0x0001000800400200);
        const __m256i up = moved_up(packed, four_times(whole_word, next_word, 0), powers);
        return _mm256_and_si256(_mm256_srli_epi16(up, 9), _mm256_set1_epi16(7));
    }
};

// Digits in base 3, the first ones of fractions of 256 that are multiplied by powers of 3: see
// quants/tq1_0.h. Fractions are less by 128, as signed bytes, and 3 times one is so again.
template <>
struct Codes<TQ1_0> : TernaryCodes {
    static constexpr int max_code = 2;
    Bytes32 fractions[8];
    explicit Codes(const uint8_t *block) : TernaryCodes(block) {
        __m256i all = _mm256_xor_si256(load256(block), _mm256_set1_epi8(-128));
        for (int s = 0; s < 5; ++s, all = tripled(all)) fractions[s] = {all};
        __m128i half = _mm_xor_si128(load128(block + 32), _mm_set1_epi8(-128));
        for (int s = 5; s < 7; ++s) {
            const __m128i next = tripled(half);
            fractions[s] = {_mm256_setr_m128i(half, next)};
            half = tripled(next);
        }
        const __m128i four = _mm_cvtsi32_si128(bits::load<int32_t>(block + 48) ^ 0x80808080);
        const __m128i first = _mm_unpacklo_epi32(four, tripled(four));
        const __m128i second = tripled(tripled(first));
        fractions[7] = {_mm256_setr_m128i(half, _mm_unpacklo_epi64(first, second))};
    }
    float d() const { return bits::half(b + 52); }
    Bytes32 codes(int s) const {
        const __m256i one = _mm256_cmpgt_epi8(fractions[s].v, _mm256_set1_epi8(85 - 128));
        const __m256i two = _mm256_cmpgt_epi8(fractions[s].v, _mm256_set1_epi8(170 - 128));
        return {_mm256_abs_epi8(_mm256_add_epi8(one, two))};
    }

private:
    // Bytes modulo 256.
    static __m256i tripled(__m256i v) { return _mm256_add_epi8(v, _mm256_add_epi8(v, v)); }
    static __m128i tripled(__m128i v) { return _mm_add_epi8(v, _mm_add_epi8(v, v)); }
};

}  // namespace unladen::cpu::UNLADEN_ISA
