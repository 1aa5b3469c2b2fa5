// Integer dot products with blocks of 256 weights whose codes are looked up: entries of grids, and
// digits in base 3. Level vbmi compiles this file itself and takes other products from avx512.
#include "backends/cpu/csrc/isa/products/int8.h"

#if defined(UNLADEN_AVX512)
#include "backends/cpu/csrc/isa/products/rows512.h"
#elif defined(UNLADEN_AVX2) || defined(UNLADEN_NEON)
#include "backends/cpu/csrc/isa/products/dealt.h"
#include "backends/cpu/csrc/isa/products/rows.h"
#else
#include "backends/cpu/csrc/isa/products/rows.h"
#endif

namespace unladen::cpu::UNLADEN_ISA {

namespace {

constexpr ActFormat format = in_lanes ? ActFormat::q8_256_lanes : ActFormat::q8_256;

template <class T>
void run(float *y, size_t y_stride, Weights w, int n_first, int n_last, int n_cols,
         const void *act, int n_rows, int t_first, int t_last) {
    const Job job = job_of<T>(y, y_stride, w, n_first, n_last, n_cols, act, t_first, t_last);
    [[maybe_unused]] const bool panels = in_panels(format, n_rows);
#if defined(UNLADEN_AVX512)
    run_rows_apart<T>(job, panels);
#elif defined(UNLADEN_AVX2)
    panels ? run_tiles<Dealt256<T>>(job) : run_rows_as_known<FastestRow<T>>(job);
#elif defined(UNLADEN_NEON)
    panels ? run_tiles<Dealt256<T>>(job) : run_rows<Int8Of256<T>>(job);
#else
    run_rows<Int8Of256<T>>(job);
#endif
}

template <class T>
struct LookedUp {
    static constexpr bool has = has_int8<T> && is_looked_up<T>;
    static constexpr Linear linear = {format, T::block_size, T::block_bytes, 16, run<T>};
};

}  // namespace

const Linear *int8_grid(const char *type) { return find<LookedUp>(AllTypes{}, type); }

}  // namespace unladen::cpu::UNLADEN_ISA
