// Scales of blocks of 256, packed into few bits, as bytes of 64-bit integers.
#pragma once

#include "backends/cpu/csrc/quants/all.h"

namespace unladen::cpu::UNLADEN_ISA {

// Q3_K: 16 scales plus 32, from the low four bits in the nibbles of eight bytes, then the high two:
// bits 2 i of the four bytes belong to scales 4 i ... 4 i + 3.
struct Q3KScales {
    uint64_t first, second;
    explicit Q3KScales(const uint8_t *p) {
        const uint64_t low = bits::load<uint64_t>(p), high = bits::load<uint32_t>(p + 8);
        const uint64_t nibble = 15 * bits::ones, top = 0x30 * bits::ones;
        first = (low & nibble) | ((high << 4 | high << 34) & top);
        second = (low >> 4 & nibble) | ((high | high << 30) & top);
    }
};

// IQ4_XS: eight scales plus 32, the high two bits in a uint16 at byte 2 of the block, the low four
// in the nibbles of four bytes at 4.
inline uint64_t iq4_xs_scales(const uint8_t *block) {
    const uint32_t high = bits::load<uint16_t>(block + 2), low = bits::load<uint32_t>(block + 4);
    uint64_t scales = 0;
    for (int s = 0; s < 8; ++s) {
        scales |= uint64_t((low >> 4 * s & 15) | (high >> 2 * s & 3) << 4) << 8 * s;
    }
    return scales;
}

}  // namespace unladen::cpu::UNLADEN_ISA
