// The instruction-set levels that this machine can run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/csrc/isa/contract/kernels.h"

namespace unladen::cpu {

// Names of the levels that this build has and this CPU can run, slowest first.
std::vector<std::string> levels();

// The table of a level of levels(); throws std::invalid_argument for another name.
const Kernels *kernels_for(std::string_view level);

}  // namespace unladen::cpu
