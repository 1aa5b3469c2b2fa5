#include "backends/cpu/csrc/cpu.h"

#include <stdexcept>

#ifdef __x86_64__
#include <cpuid.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace unladen::cpu {
namespace {

struct Level {
    const Kernels *(*table)();
    bool present;
};

#if defined(__aarch64__)
struct ArmFeatures {
    bool dotprod = false, i8mm = false;
};

ArmFeatures arm_features() {
#if defined(__linux__)
    // HWCAP_ASIMDDP and HWCAP2_I8MM, which old headers lack.
    return {(getauxval(AT_HWCAP) >> 20 & 1) != 0, (getauxval(AT_HWCAP2) >> 13 & 1) != 0};
#elif defined(__APPLE__)
    const auto has = [](const char *name) {
        int value = 0;
        size_t size = sizeof value;
        return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
    };
    return {has("hw.optional.arm.FEAT_DotProd"), has("hw.optional.arm.FEAT_I8MM")};
#else
    return {};
#endif
}
#endif

#ifdef __x86_64__
struct X86Features {
    bool avx2 = false, avx512 = false, vbmi = false;
};

// Not every compiler's __builtin_cpu_supports knows it.
bool has_f16c() {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

X86Features x86_features() {
    __builtin_cpu_init();
    X86Features has;
    has.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
               __builtin_cpu_supports("bmi2") && has_f16c();
    has.avx512 = has.avx2 && __builtin_cpu_supports("avx512f") &&
                 __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
#ifdef UNLADEN_EMULATE_AVX512
    has.avx512 = has.avx2;
#endif
#ifdef UNLADEN_EMULATE_VBMI
    has.vbmi = has.avx512;
#else
    has.vbmi = has.avx512 && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("gfni");
#endif
    return has;
}
#endif

Reading reading_of_this_processor() {
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_is("intel")) return Reading::intel;
    if (__builtin_cpu_is("znver3")) return Reading::zen3;
    if (__builtin_cpu_is("amdfam19h")) return Reading::zen4;
    // Later families than compilers have names for.
    if (__builtin_cpu_is("amd") && !__builtin_cpu_is("amdfam17h") &&
        !__builtin_cpu_is("amdfam15h")) {
        return Reading::zen5;
    }
#endif
    return Reading::other;
}

std::vector<Level> present_levels() {
    std::vector<Level> found{{kernels_portable, true}};
#ifdef __x86_64__
    [[maybe_unused]] const X86Features x86 = x86_features();
#endif
#ifdef UNLADEN_HAVE_avx2
    found.push_back({kernels_avx2, x86.avx2});
#endif
#ifdef UNLADEN_HAVE_avx512
    found.push_back({kernels_avx512, x86.avx512});
#endif
#ifdef UNLADEN_HAVE_vbmi
    found.push_back({kernels_vbmi, x86.vbmi});
#endif
#ifdef UNLADEN_HAVE_neon
    const ArmFeatures arm = arm_features();
    found.push_back({kernels_neon, true});
    found.push_back({kernels_dotprod, arm.dotprod});
    found.push_back({kernels_i8mm, arm.dotprod && arm.i8mm});
#endif
    return found;
}

}  // namespace

Reading reading = reading_of_this_processor();

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
