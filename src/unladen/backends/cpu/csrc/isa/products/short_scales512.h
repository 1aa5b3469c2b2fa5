// Rows of formats of 32 weights with short scales: of each float16 the sign and eleven bits of its
// magnitude instead of fifteen. That suffices where a row's scales are within two octaves of its
// smallest. The other four bits are stored separately and read only if one of sixteen rows has a
// wider range of scales.
#pragma once

#include "backends/cpu/csrc/isa/products/interleaved512.h"

namespace unladen::cpu::UNLADEN_ISA {

// Whether blocks of T are a float16 scale and four-bit codes, stored with short scales.
template <class T>
constexpr bool has_short_scales = requires { InLanes<T>::has_short_scales; };

// Eight blocks of T in sixteen rows. Block by block, the scales' signs, each above bits 4 to 10 of
// the scale; then bits 0 to 3 of the scales, those of blocks 4 to 7 above those of blocks 0 to 3;
// then the interleaved codes of the blocks. Bits 11 to 14 are elsewhere, at `high`, in the order of
// bits 0 to 3.
template <class T>
struct Shortened {
    using Each = T;
    static constexpr bool is_coarse = false;
    static constexpr int n_blocks = 8, n_alike = n_blocks, block_size = 32 * n_blocks;
    static constexpr int code_bytes = T::block_bytes - 2, scale_bytes = n_blocks * 12 / 8;
    static constexpr int block_bytes = scale_bytes + n_blocks * code_bytes;
    static constexpr int high_bytes = n_blocks * 4 / 8;
    // How many known numbers of sixteen rows come before the scales' origin.
    static constexpr int n_known_before = 0;

    // The byte at which block b's codes begin.
    static constexpr int codes_at(int b) { return tile_rows * (scale_bytes + b * code_bytes); }
    // Rows that hold whole blocks.
    static bool fits(int n_cols) { return n_cols % block_size == 0; }
};

// The place to which sixteen rows are written.
template <class T>
struct ShortPlace {
    using S = Shortened<T>;
    uint8_t *to, *apart;

    ShortPlace(uint8_t *all, uint8_t *high, int row, int n_cols)
        : to(all + size_t(row) * (n_cols / S::block_size) * S::block_bytes),
          apart(high + size_t(row) * (n_cols / S::block_size) * S::high_bytes) {}
    uint8_t *scales(int i) const { return to + size_t(i) * tile_rows * S::block_bytes; }
    uint8_t *low(int i) const { return scales(i) + tile_rows * S::n_blocks; }
    uint8_t *high(int i) const { return apart + size_t(i) * tile_rows * S::high_bytes; }
    // Writes the codes of block b, which is interleaved in `block`.
    void put_codes(int i, int b, const uint8_t *block) const {
        std::memcpy(scales(i) + S::codes_at(b), block + 2 * tile_rows, tile_rows * S::code_bytes);
    }
};

// The number from which magnitudes of scales are counted, for each of sixteen rows: the bits of a
// float16 without the sign, as an integer, rise with its magnitude.
struct ScaleOrigin {
    __m256i least;
    bool is_wide;  // all fifteen bits are needed

    static constexpr int n_bytes = 2 * tile_rows;
    // Marks rows with a wide range of scales; no row has this as its least.
    static constexpr uint16_t wide_mark = 0xffff;

    static UNLADEN_INLINE ScaleOrigin at(const uint8_t *p) {
        return {load256(p), bits::load<uint16_t>(p) == wide_mark};
    }
};

template <class T>
struct ShortBlock {
    const uint8_t *p, *high, *origin;

    UNLADEN_INLINE const uint8_t *low() const { return p + tile_rows * Shortened<T>::n_blocks; }
    UNLADEN_INLINE Interleaved block(int b) const {
        return {p + Shortened<T>::codes_at(b) - 2 * tile_rows};
    }
};
template <class T>
struct BlockIn<Shortened<T>> {
    using type = ShortBlock<T>;
};

template <class T>
UNLADEN_INLINE void skip_blocks(ShortBlock<typename T::Each> &w, int n) {
    w.p += size_t(n) * tile_rows * T::block_bytes;
    w.high += size_t(n) * tile_rows * T::high_bytes;
}
template <class T>
    requires requires { T::high_bytes; }
UNLADEN_INLINE Block<T> interleaved_at(const Job &job, int row, int k, uint8_t *) {
    const size_t b = k / T::block_size, high_row_bytes = job.n_cols / T::block_size * T::high_bytes;
    return {job.w + row * job.row_bytes + b * tile_rows * T::block_bytes,
            job.rest + row * high_row_bytes + b * tile_rows * T::high_bytes,
            reinterpret_cast<const uint8_t *>(job.known) +
                row / tile_rows * ScaleOrigin::n_bytes};
}

// The codes of those last blocks of eight that are stored differently, decoded as far as needed.
template <class T>
struct LastCodes;

// Sixteen rows' scales of eight blocks. Coarse scales lack bits 0 to 3 and stand for the middle of
// all scales with the same higher bits. For the last blocks, whose codes are twice as large, they
// are half of that.
template <class T>
struct ShortScales {
    static constexpr bool are_coarse = T::is_coarse;
    alignas(64) float of[8][tile_rows];

    explicit UNLADEN_INLINE ShortScales(const Block<T> &w) {
        const ScaleOrigin origin = ScaleOrigin::at(w.origin);
        origin.is_wide ? read<true>(w.p, w.low(), w.high, _mm256_setzero_si256())
                       : read<false>(w.p, w.low(), w.high, origin.least);
    }

private:
    template <bool is_wide>
    UNLADEN_INLINE void read(const uint8_t *p, [[maybe_unused]] const uint8_t *low,
                             [[maybe_unused]] const uint8_t *high, __m256i least) {
        __m512i origin = _mm512_broadcast_i64x4(least);
        if (are_coarse) origin = _mm512_add_epi16(origin, _mm512_set1_epi16(8));
#pragma GCC unroll 2
        for (int pair = 0; pair < 2; ++pair) {
            __m512i first = signed_bits(p + 32 * pair), second = signed_bits(p + 64 + 32 * pair);
            if (!are_coarse) {
                const __m512i bits = words_of(low + 32 * pair);
                first = either(first, _mm512_and_si512(bits, _mm512_set1_epi16(0x0f)));
                second = either(second, _mm512_srli_epi16(bits, 4));
            }
            if (is_wide) {
                const __m512i bits = words_of(high + 32 * pair);
                const __m512i bits_of_second = _mm512_and_si512(bits, _mm512_set1_epi16(0xf0));
                first = either(first, _mm512_slli_epi16(
                                          _mm512_and_si512(bits, _mm512_set1_epi16(0x0f)), 11));
                second = either(second, _mm512_slli_epi16(bits_of_second, 7));
            }
            put(2 * pair, _mm512_add_epi16(first, origin));
            put(4 + 2 * pair, _mm512_add_epi16(second, origin));
        }
    }
    static UNLADEN_INLINE __m512i words_of(const uint8_t *p) {
        return _mm512_cvtepu8_epi16(load256(p));
    }
    // Thirty-two signs and seven bits, at their places in a float16.
    static UNLADEN_INLINE __m512i signed_bits(const uint8_t *p) {
        const __m512i words = _mm512_slli_epi16(_mm512_cvtepi8_epi16(load256(p)), 4);
        return _mm512_and_si512(words, _mm512_set1_epi16(short(0x87f0)));
    }
    UNLADEN_INLINE void put(int b, __m512i halves) {
        put(b, _mm512_cvtph_ps(_mm512_castsi512_si256(halves)));
        put(b + 1, _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1)));
    }
    UNLADEN_INLINE void put(int b, __m512 scales) {
        const bool halves = are_coarse && b >= T::n_alike;
        _mm512_store_ps(of[b], halves ? _mm512_mul_ps(scales, _mm512_set1_ps(0.5f)) : scales);
    }
};

// Products with a few columns of a panel of `columns` columns.
template <class T, int columns>
struct ColumnsShort {
    using Panel = Panel32Of<columns>;
    using Each = Columns32<typename T::Each, columns>;
    using Scales = ShortScales<T>;
    static constexpr int rolled_k = T::block_size;

    template <int n>
    static UNLADEN_INLINE void add(__m512 (&c)[n], Block<T> w, const Panel &x, int k,
                                   PrefetchTarget target) {
        if constexpr (n == 1) target.ask_at_once<block_bytes<T>>();
        const Scales scales(w);
#pragma GCC unroll 8
        for (int b = 0; b < T::n_alike; ++b) add_block<Each>(c, w, scales, x, k, b, target);
        if constexpr (T::n_alike < T::n_blocks) {
            using Last = Columns32<typename T::Last, columns>;
            const LastCodes<T> codes(w, scales);
#pragma GCC unroll 8
            for (int b = T::n_alike; b < T::n_blocks; ++b) {
                add_block<Last>(c, codes, scales, x, k, b, target);
            }
        }
    }

    static UNLADEN_INLINE void add_rolled(__m512 (&c)[1], Block<T> w, const Panel &x, int k) {
        constexpr int code_bytes = tile_rows * T::code_bytes;
        const Scales scales(w);
        ask_rolled<T>(w.p, tile_rows * T::scale_bytes / 64);
#pragma GCC unroll 1
        for (int b = 0; b < T::n_blocks; ++b) {
            const Interleaved block = w.block(b);
            ask_rolled<T>(block.p + 2 * tile_rows, code_bytes / 64);
            Each::add_block(c, block, _mm512_load_ps(scales.of[b]), x, k + 32 * b, AskNothing());
        }
    }

private:
    template <class Each, int n, class Codes>
    static UNLADEN_INLINE void add_block(__m512 (&c)[n], const Codes &codes, const Scales &scales,
                                         const Panel &x, int k, int b,
                                         const PrefetchTarget &target) {
        constexpr int bytes = block_bytes<T>, n_shares = 2 * T::n_blocks;
        target.ask_share<bytes>(2 * b, n_shares);
        // Otherwise the compiler keeps scales in registers that many sums need.
        __asm__ volatile("" ::"r"(n > 4 ? &scales : nullptr) : "memory");
        Each::add_block(c, codes.block(b), _mm512_load_ps(scales.of[b]), x, k + 32 * b,
                        AskShare<bytes>{target, 2 * b + 1, n_shares});
    }
};

template <class T>
struct TiledShort : Tiled32<typename T::Each> {
    static constexpr int slice_bytes = T::block_bytes;

    static void unpack(typename Tiled32<typename T::Each>::Tile &tile, const Job &job, int row,
                       int k, int) {
        const Block<T> w = interleaved_at<T>(job, row, k, nullptr);
        const ShortScales<T> scales(w);
        for (int b = 0; b < T::n_alike; ++b) {
            decode<typename T::Each>(tile.block[b], w.block(b), _mm512_load_ps(scales.of[b]));
        }
        if constexpr (T::n_alike < T::n_blocks) {
            const LastCodes<T> codes(w, scales);
            for (int b = T::n_alike; b < T::n_blocks; ++b) {
                decode<typename T::Last>(tile.block[b], codes.block(b),
                                         _mm512_load_ps(scales.of[b]));
            }
        }
    }
};

// A block's scales in sixteen rows.
inline __m256i scales_of(Sixteen block) {
    alignas(32) uint16_t half[tile_rows];
    for (int r = 0; r < tile_rows; ++r) half[r] = bits::load<uint16_t>(block.p + r * block.stride);
    return load256(half);
}
// The scales without their signs.
UNLADEN_INLINE __m256i sizes(__m256i scales) {
    return _mm256_and_si256(scales, _mm256_set1_epi16(0x7fff));
}

// Writes and returns the numbers from which scales of sixteen rows of n blocks are counted.
template <class T>
__m256i put_origin(uint8_t *origin, Sixteen w, int n) {
    __m256i least = _mm256_set1_epi16(0x7fff), most = _mm256_setzero_si256();
    for (int b = 0; b < n; ++b) {
        const __m256i here = sizes(scales_of(w.at(size_t(b) * T::block_bytes)));
        least = _mm256_min_epi16(least, here);
        most = _mm256_max_epi16(most, here);
    }
    const __m256i beyond = _mm256_srli_epi16(_mm256_sub_epi16(most, least), 11);
    const bool is_wide = !_mm256_testz_si256(beyond, beyond);
    const __m256i mark = _mm256_set1_epi16(short(ScaleOrigin::wide_mark));
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(origin), is_wide ? mark : least);
    return is_wide ? _mm256_setzero_si256() : least;
}

UNLADEN_INLINE void put_bytes(uint8_t *p, __m128i v) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p), v);
}
// Writes the low four bits of v as those of block b.
UNLADEN_INLINE void put_four(uint8_t *p, int b, __m256i v) {
    const __m128i four = _mm_and_si128(_mm256_cvtepi16_epi8(v), _mm_set1_epi8(0x0f));
    p += tile_rows * (b % 4);
    put_bytes(p, b < 4 ? four : _mm_or_si128(load128(p), _mm_slli_epi16(four, 4)));
}
// Writes the short scales of block b of eight, counted from `least`.
UNLADEN_INLINE void put_scales(uint8_t *to, uint8_t *low, uint8_t *high, int b, __m256i scales,
                               __m256i least) {
    const __m256i size = _mm256_sub_epi16(sizes(scales), least);
    const __m256i first = _mm256_and_si256(_mm256_srli_epi16(size, 4), _mm256_set1_epi16(0x7f));
    const __m256i sign = _mm256_slli_epi16(_mm256_srli_epi16(scales, 15), 7);
    put_bytes(to + tile_rows * b, _mm256_cvtepi16_epi8(_mm256_or_si256(first, sign)));
    put_four(low, b, size);
    put_four(high, b, _mm256_srli_epi16(size, 11));
}

// Writes whole sixteens of rows, one after another, as blocks of S, to the addresses of Place.
template <class S, class Place>
void shorten_to(uint8_t *to, uint8_t *apart, float *known, const uint8_t *w, int n_rows,
                int n_cols) {
    using T = typename S::Each;
    constexpr int n_known = S::n_known_before + ScaleOrigin::n_bytes / int(sizeof(float));
    const int n_blocks = n_cols / T::block_size;
    const size_t row_bytes = size_t(n_blocks) * T::block_bytes;
    for (int row = 0; row < n_rows; row += tile_rows, known += n_known) {
        const Sixteen rows = {w + row * row_bytes, row_bytes};
        const Place place(to, apart, row, n_cols);
        auto *origin = reinterpret_cast<uint8_t *>(known + S::n_known_before);
        const __m256i least = put_origin<T>(origin, rows, n_blocks);
        for (int at = 0; at < n_blocks; ++at) {
            const int i = at / S::n_blocks, b = at % S::n_blocks;
            alignas(64) uint8_t block[block_bytes<T>];
            interleave<T>(block, rows.at(size_t(at) * T::block_bytes));
            put_scales(place.scales(i), place.low(i), place.high(i), b, load256(block), least);
            place.put_codes(i, b, block);
        }
    }
}
template <class T>
void shorten_rows(uint8_t *to, uint8_t *high, float *known, const uint8_t *w, int n_rows,
                  int n_cols) {
    using S = Shortened<T>;
    if (!S::fits(n_cols)) return interleave_rows<T>(to, nullptr, nullptr, w, n_rows, n_cols);
    shorten_to<S, ShortPlace<T>>(to, high, known, w, n_rows, n_cols);
}

}  // namespace unladen::cpu::UNLADEN_ISA
