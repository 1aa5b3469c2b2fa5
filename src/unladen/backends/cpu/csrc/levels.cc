#include "backends/cpu/csrc/cpu.h"

#include <initializer_list>
#include <stdexcept>

#ifdef __x86_64__
#include <cpuid.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(__aarch64__) && defined(_WIN32)
#include <windows.h>
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
#elif defined(_WIN32)
    // PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE and PF_ARM_V82_I8MM_INSTRUCTIONS_AVAILABLE, likewise.
    return {IsProcessorFeaturePresent(43) != 0, IsProcessorFeaturePresent(66) != 0};
#else
    return {};
#endif
}
#endif

#ifdef __x86_64__
// Asks the processor itself. __builtin_cpu_supports reads a table of the compiler's run-time
// library, which some toolchains leave empty.
struct Answer {
    unsigned a = 0, b = 0, c = 0, d = 0;
};

// Returns zeros for a leaf that the processor doesn't have.
Answer cpuid(unsigned leaf) {
    Answer answer;
    __get_cpuid_count(leaf, 0, &answer.a, &answer.b, &answer.c, &answer.d);
    return answer;
}

constexpr bool has_bits(unsigned answer, std::initializer_list<int> bits) {
    for (const int bit : bits)
        if ((answer >> bit & 1) == 0) return false;
    return true;
}

// Reads XCR0, the registers that the system saves when it switches threads. CPUID must report
// OSXSAVE.
unsigned kept_registers() {
    unsigned low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

struct X86Features {
    bool avx2 = false, avx512 = false, vbmi = false;
};

X86Features x86_features() {
    const Answer basic = cpuid(1), extended = cpuid(7);
    constexpr int osxsave = 27;
    const unsigned kept = has_bits(basic.c, {osxsave}) ? kept_registers() : 0;
    const bool keeps_ymm = has_bits(kept, {1, 2});
#ifdef __APPLE__
    const bool keeps_zmm = keeps_ymm;  // macOS reports zmm only after its first use
#else
    const bool keeps_zmm = keeps_ymm && has_bits(kept, {5, 6, 7});
#endif
    constexpr int fma = 12, avx = 28, f16c = 29;              // ECX of leaf 1
    constexpr int avx2 = 5, bmi2 = 8;                         // EBX of leaf 7
    constexpr int avx512f = 16, avx512dq = 17, avx512bw = 30, avx512vl = 31;
    constexpr int avx512vnni = 11;                            // ECX of leaf 7
    X86Features has;
    has.avx2 = keeps_ymm && has_bits(basic.c, {fma, avx, f16c}) &&
               has_bits(extended.b, {avx2, bmi2});
    has.avx512 = has.avx2 && keeps_zmm && has_bits(extended.c, {avx512vnni}) &&
                 has_bits(extended.b, {avx512f, avx512dq, avx512bw, avx512vl});
#ifdef UNLADEN_EMULATE_AVX512
    has.avx512 = has.avx2;
#endif
#ifdef UNLADEN_EMULATE_VBMI
    has.vbmi = has.avx512;
#else
    constexpr int avx512vbmi = 1, gfni = 8;                   // ECX of leaf 7
    has.vbmi = has.avx512 && has_bits(extended.c, {avx512vbmi, gfni});
#endif
    return has;
}

// The family of AMD's Zen 3 and Zen 4; up to Zen 2, and Hygon's, families are below it.
constexpr unsigned zen3_or_zen4_family = 0x19;

Reading reading_of_x86() {
    const Answer vendor = cpuid(0), basic = cpuid(1);
    if (vendor.b == signature_INTEL_ebx) return Reading::intel;
    if (vendor.b != signature_AMD_ebx) return Reading::other;
    const unsigned base = basic.a >> 8 & 15, model = (basic.a >> 4 & 15) | (basic.a >> 12 & 0xf0);
    const unsigned family = base == 15 ? base + (basic.a >> 20 & 0xff) : base;
    if (family > zen3_or_zen4_family) return Reading::zen5;
    if (family < zen3_or_zen4_family) return Reading::other;
    const bool is_zen3 = model < 0x10 || (model >= 0x20 && model < 0x60);
    return is_zen3 ? Reading::zen3 : Reading::zen4;
}
#endif

Reading reading_of_this_processor() {
#ifdef __x86_64__
    return reading_of_x86();
#else
    return Reading::other;
#endif
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
