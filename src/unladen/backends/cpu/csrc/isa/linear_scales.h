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
    // Half of the fields move up, then half of each half's.
    uint64_t high = bits::load<uint16_t>(block + 2), low = bits::load<uint32_t>(block + 4);
    low = (low | low << 16) & 0x0000ffff0000ffff;
    low = (low | low << 8) & 0x00ff00ff00ff00ff;
    low = (low | low << 4) & (15 * bits::ones);
    high = (high | high << 24) & 0x000000ff000000ff;
    high = (high | high << 12) & 0x000f000f000f000f;
    high = (high | high << 6) & (3 * bits::ones);
    return low | high << 4;
}

}  // namespace unladen::cpu::UNLADEN_ISA
