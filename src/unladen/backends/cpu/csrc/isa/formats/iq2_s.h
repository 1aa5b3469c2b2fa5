// IQ2_S: 256 weights in 82 bytes, 2.5625 bits each.
#pragma once

#include "backends/cpu/csrc/isa/formats/grid.h"
#include "backends/cpu/csrc/isa/formats/grid_codes.h"

namespace unladen::cpu::UNLADEN_ISA {

// w = d * (scale + 1/2) / 4 * sign * grid, a scale per 16 weights. Byte 0: d (float16); 2: the low
// 8 bits of the grid indices; 34: signs; 66: the high 2 bits of the indices; 74: scales, in
// nibbles.
struct IQ2_S : SignedGrid<IQ2_S> {
    static constexpr const char *name = "IQ2_S";
    static constexpr int block_bytes = 82, sub = 16, max_code = 43;
    static constexpr float unit = 0.125f;
    static inline uint64_t scales(const uint8_t *block, int half) {
        const auto packed = bits::load<uint32_t>(block + 74 + 4 * half);
        return 2 * bits::spread_nibbles(packed) + bits::ones;
    }
    static inline uint64_t entry(const uint8_t *block, int g) {
        return quants::iq2s_grid[block[2 + g] | (block[66 + g / 4] >> g % 4 * 2 & 3) << 8];
    }
    static inline uint32_t signs(const uint8_t *block, int s) {
        return bits::load<uint32_t>(block + 34 + 4 * s);
    }
};

#if defined(UNLADEN_AVX512)

inline constexpr Grid512<uint64_t, 1024> iq2s_512(quants::iq2s_grid, {8, 25, 43});

template <>
struct Codes512<IQ2_S> : SignedCodes512<IQ2_S, iq2s_512> {
    UNLADEN_INLINE explicit Codes512(const uint8_t *w)
        : Codes512(w, bits::load<uint64_t>(w + 66)) {}
    UNLADEN_INLINE Codes512(const uint8_t *w, uint64_t top)
        : SignedCodes512(w, nibble_words(w + 74), load256(w + 34), widened(load256(w + 2)),
                     _cvtu64_mask64(_pext_u64(top, 0x5555555555555555)),
                     _cvtu64_mask64(_pext_u64(top, 0xaaaaaaaaaaaaaaaa))) {}
};

#elif defined(UNLADEN_AVX2)

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

#endif

}  // namespace unladen::cpu::UNLADEN_ISA
