// Integer dot products with blocks of 256 weights, which have integer scales for each 16 or 32 of
// them; activations have a scale each 256.
#include "backends/cpu/csrc/isa/products/int8.h"

#if defined(UNLADEN_AVX512)
#include "backends/cpu/csrc/isa/products/interleaved512.h"
#include "backends/cpu/csrc/isa/screening/bound.h"
#elif defined(UNLADEN_AVX2)
#include "backends/cpu/csrc/isa/products/dealt.h"
#include "backends/cpu/csrc/isa/products/rows.h"
#include "backends/cpu/csrc/isa/screening/bound.h"
#elif defined(UNLADEN_NEON)
#include "backends/cpu/csrc/isa/products/dealt.h"
#include "backends/cpu/csrc/isa/products/rows.h"
#else
#include "backends/cpu/csrc/isa/products/rows.h"
#endif

namespace unladen::cpu::UNLADEN_ISA {

namespace {

template <class T>
constexpr ActFormat format = by_two<T> ? ActFormat::q8_256_pairs : ActFormat::q8_256;

template <class T>
void run(float *y, size_t y_stride, Weights w, int n_first, int n_last, int n_cols,
         const void *act, int n_rows, int t_first, int t_last) {
    const Job job = job_of<T>(y, y_stride, w, n_first, n_last, n_cols, act, t_first, t_last);
    [[maybe_unused]] const bool panels = in_panels(format<T>, n_rows);
#if defined(UNLADEN_AVX512)
    run_interleaved<T, Columns256, Tiled256>(job, panels);
#elif defined(UNLADEN_AVX2)
    panels ? run_tiles<Dealt256<T>>(job) : run_rows_as_known<FastestRow<T>>(job);
#elif defined(UNLADEN_NEON)
    panels ? run_tiles<Dealt256<T>>(job) : run_rows<Int8Of256<T>>(job);
#else
    run_rows<Int8Of256<T>>(job);
#endif
}

#if defined(UNLADEN_SCREENS)

// Divided rows: U is Coarse<T> or Whole<T>.
template <class T, class U>
void run_divided(float *y, size_t y_stride, Weights w, int n_first, int n_last, int n_cols,
                 const void *act, int n_rows, int t_first, int t_last) {
    if (!w.interleaved) {
        return run<T>(y, y_stride, w, n_first, n_last, n_cols, act, n_rows, t_first, t_last);
    }
    const Job job = job_of<U>(y, y_stride, w, n_first, n_last, n_cols, act, t_first, t_last);
    [[maybe_unused]] const bool panels = in_panels(format<T>, n_rows);
#if defined(UNLADEN_AVX512)
    run_moved<U, Columns256, Tiled256>(job, panels);
#else
    if constexpr (!is_coarse<U>) {
        if (panels) return run_tiles<DealtDivided<T>>(job);
    }
    run_rows_as_known<Row256Divided<U>>(job);
#endif
}

template <class T>
struct Screened {
    static constexpr Screen screen = {run_divided<T, Coarse<T>>, lengths<T>, most_screened_rows,
                                      Whole<T>::rest_bytes};
    static constexpr Linear linear = {format<T>, T::block_size, T::block_bytes, 16,
                                      run_divided<T, Whole<T>>, divide<T>, Whole<T>::block_size,
                                      Whole<T>::rest_bytes, 1, &screen};
};

#endif

template <class T>
struct Of256 {
    static constexpr bool has = has_int8<T> && T::block_size == 256 && !is_looked_up<T>;
    static constexpr Linear linear = {format<T>, T::block_size, T::block_bytes, 16, run<T>,
#if defined(UNLADEN_AVX512)
                                      interleave_rows<T>
#endif
    };

    static const Linear *screened() {
#if defined(UNLADEN_SCREENS)
        if constexpr (rest_bytes_of<T> > 0) return &Screened<T>::linear;
#endif
        return nullptr;
    }
};

}  // namespace

const Linear *int8_256(const char *type) { return find<Of256>(AllTypes{}, type); }
const Linear *screened_256(const char *type) { return find_screened<Of256>(AllTypes{}, type); }

}  // namespace unladen::cpu::UNLADEN_ISA
