// The table of one instruction-set level. A level that refines another one, UNLADEN_REFINES, has
// its own integer products and rounds their activations itself; the other kernels are those of the
// base.
#include "backends/cpu/csrc/isa/contract/level.h"

#define UNLADEN_STRING_(a) #a
#define UNLADEN_STRING(a) UNLADEN_STRING_(a)

namespace unladen::cpu {

#ifdef UNLADEN_REFINES
const Kernels *UNLADEN_CONCAT(kernels_, UNLADEN_ISA)() {
    static const Kernels table = [] {
        Kernels own = *UNLADEN_CONCAT(kernels_, UNLADEN_REFINES)();
        own.name = UNLADEN_STRING(UNLADEN_ISA);
        own.linear = UNLADEN_ISA::linear;
        own.packer = UNLADEN_ISA::packer;
        return own;
    }();
    return &table;
}
#else
const Kernels *UNLADEN_CONCAT(kernels_, UNLADEN_ISA)() {
    namespace level = UNLADEN_ISA;
    static constexpr Kernels table = {
        UNLADEN_STRING(UNLADEN_ISA), level::rms_norm,   level::layer_norm,
        level::rope,                 level::activate,   level::glu,
        level::add,                  level::scale_add,  level::largest,
        level::softcap,
        level::kv_store,             level::attention_scratch_floats,
        level::attention,            level::attention_merge,
        level::attention_rows_scratch_floats,
        level::attention_rows,
        level::conv1d,               level::ssm_scan,
        level::linear_attention,     level::rwkv_mix,   level::packer,
        level::linear,               level::screened_linear,
        level::dequantize,
        level::quantize,             level::finite,
    };
    return &table;
}
#endif

}  // namespace unladen::cpu
