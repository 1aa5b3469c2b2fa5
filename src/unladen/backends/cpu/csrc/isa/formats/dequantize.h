// Rows of any block format as float32.
#pragma once

#include "backends/cpu/csrc/isa/formats/all.h"

namespace unladen::cpu::UNLADEN_ISA {

// Writes the n weights of the whole blocks at w as float32. dequantize.cc compiles it for every
// format, and other files call it.
template <class T>
void dequantize_row(float *y, const uint8_t *w, int n);
#define UNLADEN_DEQUANTIZE(T) extern template void dequantize_row<T>(float *, const uint8_t *, int);
UNLADEN_EACH_FORMAT(UNLADEN_DEQUANTIZE)
#undef UNLADEN_DEQUANTIZE

}  // namespace unladen::cpu::UNLADEN_ISA
