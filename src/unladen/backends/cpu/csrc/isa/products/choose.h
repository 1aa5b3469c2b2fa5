// The kernels that choose.cc chooses from, each in a file of its name; nullptr: not for this type.
#pragma once

#include "backends/cpu/csrc/isa/contract/level.h"

namespace unladen::cpu::UNLADEN_ISA {

const Linear *linear_float(const char *type);
const Linear *int8_32(const char *type);
const Linear *int8_256(const char *type);
const Linear *int8_grid(const char *type);

// The same with a screen, for output heads.
const Linear *screened_32(const char *type);
const Linear *screened_256(const char *type);

}  // namespace unladen::cpu::UNLADEN_ISA
