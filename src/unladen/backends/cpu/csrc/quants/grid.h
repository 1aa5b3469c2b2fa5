// Entries of the IQ formats' grids: eight small numbers in the bytes of one integer.
#pragma once

#include "backends/cpu/csrc/quants/bits.h"
#include "backends/cpu/csrc/quants/tables.h"

namespace unladen::cpu::UNLADEN_ISA::bits {

// Eight sign bits as eight bytes, 0xff for minus.
inline uint64_t sign_bytes(uint8_t signs) { return spread_bits(signs) * 0xff; }

// y[i] = d * (byte i of `entry`), negated where byte i of `minus` is 0xff. Bytes of entry are
// positive, so that no carry leaves a byte.
inline void scale_grid(float *y, float d, uint64_t entry, uint64_t minus) {
    each(y, (entry ^ minus) + (minus & ones), [d](auto w) { return d * w; });
}

// Two entries of four as one of eight.
inline uint64_t join(uint32_t first, uint32_t second) { return first | uint64_t(second) << 32; }

}  // namespace unladen::cpu::UNLADEN_ISA::bits
