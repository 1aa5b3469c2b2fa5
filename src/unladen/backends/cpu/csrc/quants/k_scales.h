// The 12 bytes of 6-bit scales and minimums that Q4_K and Q5_K share.
#pragma once

#include "backends/cpu/csrc/quants/bits.h"

namespace unladen::cpu::UNLADEN_ISA::bits {

// Scale s of 8: the first four in the low 6 bits of bytes 0..3; of the others, the low 4 bits in
// the low nibbles of bytes 8..11 and the rest in the top 2 bits of bytes 0..3.
inline int k_scale(const uint8_t *p, int s) {
    return s < 4 ? p[s] & 63 : (p[s + 4] & 15) | (p[s - 4] >> 6 << 4);
}

// Minimum s of 8: likewise in bytes 4..7 and the high nibbles of bytes 8..11.
inline int k_min(const uint8_t *p, int s) {
    return s < 4 ? p[s + 4] & 63 : (p[s + 4] >> 4) | (p[s] >> 6 << 4);
}

}  // namespace unladen::cpu::UNLADEN_ISA::bits
