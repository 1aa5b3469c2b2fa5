// The kernels that linear.cc chooses from; nullptr: not for this type.
#pragma once

#include "backends/cpu/csrc/quants/all.h"

namespace unladen::cpu::UNLADEN_ISA {

const Linear *linear_f32(const char *type);
const Linear *linear_int8(const char *type);

}  // namespace unladen::cpu::UNLADEN_ISA
