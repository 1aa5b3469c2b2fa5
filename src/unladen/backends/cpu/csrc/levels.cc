#include "backends/cpu/csrc/cpu.h"

#include <stdexcept>

namespace unladen::cpu {
namespace {

struct Level {
    const Kernels *(*table)();
    bool present;
};

std::vector<Level> present_levels() {
    std::vector<Level> found{{kernels_portable, true}};
#ifdef UNLADEN_HAVE_avx2
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
    found.push_back({kernels_avx2, avx2});
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi") &&
                  __builtin_cpu_supports("gfni");
    found.push_back({kernels_avx512, avx512});
#endif
    return found;
}

}  // namespace

std::vector<std::string> levels() {
    std::vector<std::string> names;
    for (const Level &level : present_levels())
        if (level.present) names.emplace_back(level.table()->name);
    return names;
}

const Kernels *kernels_for(std::string_view level) {
    for (const Level &candidate : present_levels())
        if (candidate.present && candidate.table()->name == level) return candidate.table();
    throw std::invalid_argument("this machine has no instruction-set level " + std::string(level));
}

}  // namespace unladen::cpu
