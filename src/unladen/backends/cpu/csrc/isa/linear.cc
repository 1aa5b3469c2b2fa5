// Which kernel multiplies by weights of a type.
#include "backends/cpu/csrc/isa/linear_types.h"

namespace unladen::cpu::UNLADEN_ISA {

const Linear *linear(const char *type, bool precise) {
    const Linear *int8 = precise ? nullptr : linear_int8(type);
    return int8 ? int8 : linear_f32(type);
}

}  // namespace unladen::cpu::UNLADEN_ISA
