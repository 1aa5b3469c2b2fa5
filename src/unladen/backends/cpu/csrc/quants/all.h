// Every block format. A new one costs its header, a line of #include and its name in the list.
#pragma once

#include "backends/cpu/csrc/quants/iq1_m.h"
#include "backends/cpu/csrc/quants/iq1_s.h"
#include "backends/cpu/csrc/quants/iq2_s.h"
#include "backends/cpu/csrc/quants/iq2_xs.h"
#include "backends/cpu/csrc/quants/iq2_xxs.h"
#include "backends/cpu/csrc/quants/iq3_s.h"
#include "backends/cpu/csrc/quants/iq3_xxs.h"
#include "backends/cpu/csrc/quants/iq4_nl.h"
#include "backends/cpu/csrc/quants/iq4_xs.h"
#include "backends/cpu/csrc/quants/mxfp4.h"
#include "backends/cpu/csrc/quants/nvfp4.h"
#include "backends/cpu/csrc/quants/plain.h"
#include "backends/cpu/csrc/quants/q1_0.h"
#include "backends/cpu/csrc/quants/q2_0.h"
#include "backends/cpu/csrc/quants/q2_k.h"
#include "backends/cpu/csrc/quants/q3_k.h"
#include "backends/cpu/csrc/quants/q4_0.h"
#include "backends/cpu/csrc/quants/q4_1.h"
#include "backends/cpu/csrc/quants/q4_k.h"
#include "backends/cpu/csrc/quants/q5_0.h"
#include "backends/cpu/csrc/quants/q5_1.h"
#include "backends/cpu/csrc/quants/q5_k.h"
#include "backends/cpu/csrc/quants/q6_k.h"
#include "backends/cpu/csrc/quants/q8_0.h"
#include "backends/cpu/csrc/quants/tq1_0.h"
#include "backends/cpu/csrc/quants/tq2_0.h"

namespace unladen::cpu::UNLADEN_ISA {

template <class... T>
struct Types {};

using AllTypes =
    Types<F32, F16, BF16, F64, I8, I16, I32, I64, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K,
          Q5_K, Q6_K, IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ4_NL, IQ4_XS, TQ1_0,
          TQ2_0, MXFP4, NVFP4, Q1_0, Q2_0>;

}  // namespace unladen::cpu::UNLADEN_ISA
