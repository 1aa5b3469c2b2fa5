// Codes<T> of the formats with grids, on AVX2: the indices, signs and scales of a block are
// unpacked many at a time, and entries are loaded from the grid by index.
#pragma once

#include "backends/cpu/csrc/isa/formats/codes.h"
#include "backends/cpu/csrc/isa/formats/grid_bits.h"

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
// Done with loads that repeat an entry, and blends, since few units can move bytes in registers.
template <class Index>
UNLADEN_INLINE __m256i eight_entries(const uint32_t *grid, const Index *i) {
    const auto entry = [=](int k) { return _mm256_set1_epi32(int32_t(grid[i[k]])); };
    const auto two = [=](int k) { return _mm256_blend_epi32(entry(k), entry(k + 1), 0xaa); };
    return _mm256_blend_epi32(_mm256_blend_epi32(two(0), two(2), 0xcc),
                              _mm256_blend_epi32(two(4), two(6), 0xcc), 0xf0);
}

// Codes as magnitudes, and in `minus` bytes that are negative where a code is negative.
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

// Forces numbers into memory. Compilers would extract them from a register one by one, which is
// slower than loading them.
template <class Number, int n>
UNLADEN_INLINE void settle(Number (&numbers)[n]) {
    __asm__("" : "+m"(numbers));
}

template <class T>
struct GridCodes {
    static constexpr int sub = T::sub;
    static constexpr bool has_min = false, is_stored = true;  // codes() loads stored numbers
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

// Formats whose sign indices have 7 bits for eight codes.
template <class T>
struct PackedSigns : SignedCodes<T> {
    alignas(32) uint32_t signs[8];
    PackedSigns(const uint8_t *block, __m256i steps, __m256i sevens)
        : SignedCodes<T>(block, steps) {
        _mm256_store_si256(reinterpret_cast<__m256i *>(signs), with_eighth(sevens));
        settle(signs);
    }
    // 32 bits have four sign indices of 7 bits and, above them, the step of the scale.
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

// Writes indices as words: their low eight bits are bytes of `low`, their higher bits are in
// `high`.
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

// IQ1's grid as codes: eight times the entries plus the bias.
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
    // Writes -1 in each byte where `down` has bits, else 1.
    void put_shifts(__m256i down) {
        _mm256_store_si256(reinterpret_cast<__m256i *>(shift),
                           _mm256_or_si256(down, _mm256_set1_epi8(1)));
        settle(shift);
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
