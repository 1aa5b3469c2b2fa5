// The functions from which choose.cc chooses a kernel, each in a file of its name. They return
// nullptr for types that aren't theirs.
#pragma once

#include "backends/cpu/csrc/isa/contract/level.h"

namespace unladen::cpu::UNLADEN_ISA {

const Linear *linear_float(const char *type);
const Linear *int8_32(const char *type);
const Linear *int8_256(const char *type);
const Linear *int8_grid(const char *type);

// The kernels with a screen, for output heads.
const Linear *screened_32(const char *type);
const Linear *screened_256(const char *type);

}  // namespace unladen::cpu::UNLADEN_ISA
