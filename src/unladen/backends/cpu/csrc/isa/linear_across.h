// Sixteen weight rows at once, one in each 32-bit lane of AVX-512 registers: what tiles are made
// of. Layouts of blocks: the headers in quants/.
#pragma once

#include "backends/cpu/csrc/isa/linear_wide.h"

namespace unladen::cpu::UNLADEN_ISA {

// Lane r of v[j]: bytes 4 j ... 4 j + 3 of what was read from row r.
struct Lanes {
    __m512i v[4];
};

// The same place of sixteen rows; row r lies at p + r * stride.
struct Sixteen {
    const uint8_t *p;
    size_t stride;

    UNLADEN_INLINE Sixteen at(size_t offset) const { return {p + offset, stride}; }
    // Rows r, r + 4, r + 8 and r + 12, 16 bytes of each.
    UNLADEN_INLINE __m512i every_fourth(int r) const {
        const uint8_t *first = p + r * stride;
        __m512i v = _mm512_castsi128_si512(load128(first));
        v = _mm512_inserti32x4(v, load128(first + 4 * stride), 1);
        v = _mm512_inserti32x4(v, load128(first + 8 * stride), 2);
        return _mm512_inserti32x4(v, load128(first + 12 * stride), 3);
    }
    // 16 bytes of every row.
    UNLADEN_INLINE Lanes load() const {
        return transposed(every_fourth(0), every_fourth(1), every_fourth(2), every_fourth(3));
    }
    // The same, the 16 bytes reordered first.
    UNLADEN_INLINE Lanes load(__m128i order) const {
        const __m512i pick = _mm512_broadcast_i32x4(order);
        return transposed(_mm512_shuffle_epi8(every_fourth(0), pick),
                          _mm512_shuffle_epi8(every_fourth(1), pick),
                          _mm512_shuffle_epi8(every_fourth(2), pick),
                          _mm512_shuffle_epi8(every_fourth(3), pick));
    }
    // Lanes 4 i ... 4 i + 3 from the 128-bit lanes i of rows.
    static UNLADEN_INLINE Lanes transposed(__m512i a, __m512i b, __m512i c, __m512i d) {
        const __m512i ab = _mm512_unpacklo_epi32(a, b), cd = _mm512_unpacklo_epi32(c, d);
        const __m512i ab2 = _mm512_unpackhi_epi32(a, b), cd2 = _mm512_unpackhi_epi32(c, d);
        return {{_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd),
                 _mm512_unpacklo_epi64(ab2, cd2), _mm512_unpackhi_epi64(ab2, cd2)}};
    }
};

UNLADEN_INLINE __m512i low_nibbles(__m512i v) { return _mm512_and_si512(v, all_bytes(15)); }
UNLADEN_INLINE __m512i high_nibbles(__m512i v) { return field(v, 4, 4, 0); }

// The float16 in the low, or the high, half of each lane.
UNLADEN_INLINE __m512 low_halves(__m512i v) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)); }
UNLADEN_INLINE __m512 high_halves(__m512i v) { return low_halves(_mm512_srli_epi32(v, 16)); }

// Four codes of each of sixteen rows make a line of a tile.
using Line = uint8_t[64];
UNLADEN_INLINE void put(Line &line, __m512i codes) { _mm512_store_si512(line, codes); }

// Across<T>: how to decode T so. linear_across_rows.h has one for any block of 256.
template <class T>
struct Across;

}  // namespace unladen::cpu::UNLADEN_ISA
