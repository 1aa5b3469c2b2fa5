// Which kernel multiplies by weights of a type.
#include "backends/cpu/csrc/isa/products/choose.h"

namespace unladen::cpu::UNLADEN_ISA {

namespace {

// Integer products that this level has compiled itself.
const Linear *int8(const char *type) {
    const Linear *found = int8_grid(type);
#if !defined(UNLADEN_REFINES) || defined(UNLADEN_NEON)
    if (!found) found = int8_32(type);
    if (!found) found = int8_256(type);
#endif
    return found;
}

}  // namespace

const Linear *linear(const char *type, bool precise) {
    const Linear *found = precise ? nullptr : int8(type);
    if (found) return found;
#if defined(UNLADEN_REFINES)
    return UNLADEN_CONCAT(kernels_, UNLADEN_REFINES)()->linear(type, precise);
#else
    return linear_float(type);
#endif
}

#if !defined(UNLADEN_REFINES)
const Linear *screened_linear(const char *type) {
    const Linear *of_32 = screened_32(type);
    return of_32 ? of_32 : screened_256(type);
}
#endif

}  // namespace unladen::cpu::UNLADEN_ISA
