// Included by the header of a format that integer products can read. A format that defines nothing
// of the following is multiplied as float32.
//
// | level          | what a header has of format T                                         |
// | AVX-512        | InLanes<T> and Fields<T>: sixteen rows at once, see lanes512.h; or    |
// |                | Codes512<T>: one row, see codes512.h                                  |
// | all the others | Codes<T>: one row, see codes.h                                        |
// | AVX2           | RowKernel<T>, where Codes<T> alone would be slower                    |
// | both x86 ones  | Coarse<T> and Whole<T>, where output heads are screened: see          |
// |                | screening/divided512.h and divided_avx2.h                             |
#pragma once

#include "backends/cpu/csrc/isa/contract/level.h"

#if defined(UNLADEN_AVX512)
#include "backends/cpu/csrc/isa/formats/codes512.h"
#include "backends/cpu/csrc/isa/formats/lanes512.h"
#include "backends/cpu/csrc/isa/formats/planes512.h"
#include "backends/cpu/csrc/isa/screening/divided512.h"
#elif defined(UNLADEN_AVX2)
#include "backends/cpu/csrc/isa/formats/codes.h"
#include "backends/cpu/csrc/isa/products/dealt_avx2.h"
#include "backends/cpu/csrc/isa/products/nibble_pairs_avx2.h"
#include "backends/cpu/csrc/isa/screening/divided_avx2.h"
#else
#include "backends/cpu/csrc/isa/formats/codes.h"
#endif
