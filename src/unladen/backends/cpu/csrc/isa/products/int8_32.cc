// Integer dot products with blocks of 32, 64 or 128 weights that share one scale: 32 products at a
// time are summed as integers and then scaled. Activations have a scale for each 32.
#include "backends/cpu/csrc/isa/products/int8.h"

#if defined(UNLADEN_AVX512)
#include "backends/cpu/csrc/isa/products/short_scales512.h"
#include "backends/cpu/csrc/isa/screening/second_look.h"
#elif defined(UNLADEN_AVX2)
#include "backends/cpu/csrc/isa/products/dealt.h"
#include "backends/cpu/csrc/isa/products/rows32_avx2.h"
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
constexpr ActFormat format = by_two<T> ? ActFormat::q8_32_pairs : ActFormat::q8_32;

template <class T>
void run(float *y, size_t y_stride, Weights w, int n_first, int n_last, int n_cols,
         const void *act, int n_rows, int t_first, int t_last) {
    [[maybe_unused]] const bool panels = in_panels(format<T>, n_rows);
#if defined(UNLADEN_AVX512)
    if constexpr (has_short_scales<T>) {
        using S = Shortened<T>;
        if (w.interleaved && S::fits(n_cols)) {
            const Job job =
                job_of<S>(y, y_stride, w, n_first, n_last, n_cols, act, t_first, t_last);
            return run_moved<S, ColumnsShort, TiledShort>(job, panels);
        }
    }
#endif
    const Job job = job_of<T>(y, y_stride, w, n_first, n_last, n_cols, act, t_first, t_last);
#if defined(UNLADEN_AVX512)
    run_interleaved<T, Columns32, Tiled32>(job, panels);
#elif defined(UNLADEN_AVX2)
    panels ? run_tiles<Dealt32<T>>(job) : run_rows_as_known<Row32Of<T>>(job);
#elif defined(UNLADEN_NEON)
    panels ? run_tiles<Dealt32<T>>(job) : run_rows<Int8Of32<T>>(job);
#else
    run_rows<Int8Of32<T>>(job);
#endif
}

template <class T>
constexpr Linear make() {
    Linear linear = {format<T>, T::block_size, T::block_bytes, 16, run<T>};
#if defined(UNLADEN_AVX512)
    linear.interleave = interleave_rows<T>;
    if constexpr (has_short_scales<T>) {
        linear.interleave = shorten_rows<T>;
        linear.rest_block = Shortened<T>::block_size;
        linear.rest_bytes = Shortened<T>::high_bytes;
        linear.n_known = ScaleOrigin::n_bytes / sizeof(float);
    }
#endif
    return linear;
}

#if defined(UNLADEN_SCREENS)

// Divided rows: U is Coarse<T> or Whole<T>, or one of both ShortDivided.
template <class T, class U>
void run_divided(float *y, size_t y_stride, Weights w, int n_first, int n_last, int n_cols,
                 const void *act, int n_rows, int t_first, int t_last) {
    if (!w.interleaved) {
        return run<T>(y, y_stride, w, n_first, n_last, n_cols, act, n_rows, t_first, t_last);
    }
    const Job job = job_of<U>(y, y_stride, w, n_first, n_last, n_cols, act, t_first, t_last);
    [[maybe_unused]] const bool panels = in_panels(format<T>, n_rows);
#if defined(UNLADEN_AVX512)
    if constexpr (!requires { U::spared_bytes; })
        run_moved<U, Columns32, Tiled32>(job, panels);
    else if constexpr (U::is_coarse)
        panels ? run_panel<U, ColumnsShort>(job) : run_one<U, ColumnsShort>(job);
    else
        run_blocks<U, ColumnsShort, TiledShort>(job, panels);
#else
    if constexpr (!is_coarse<U>) {
        if (panels) return run_tiles<DealtDivided<T>>(job);
    }
    run_rows_as_known<Row32Divided<U>>(job);
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

#if defined(UNLADEN_AVX512)
template <class T>
    requires requires { InLanes<T>::has_short_scales; }
struct Screened<T> {
    using Coarsely = ShortDivided<true>;
    using Wholly = ShortDivided<false>;
    static_assert(__is_same(T, Coarsely::Each));
    static constexpr Screen screen = {run_divided<T, Coarsely>, lengths_short, panel_columns,
                                      Coarsely::spared_bytes, &second_look};
    static constexpr Linear linear = {format<T>, T::block_size, T::block_bytes, 16,
                                      run_divided<T, Wholly>, divide_short, Wholly::block_size,
                                      Wholly::apart_bytes, Wholly::n_known, &screen};
};
#endif

#endif

template <class T>
struct Of32 {
    static constexpr bool has = has_int8<T> && T::block_size < 256;
    static constexpr Linear linear = make<T>();

    static const Linear *screened() {
#if defined(UNLADEN_SCREENS)
        if constexpr (rest_bytes_of<T> > 0) {
#if defined(UNLADEN_AVX512)
            // No screen where one column is read in a loop over a block's codes: coarse blocks have
            // two kinds of codes, and such a loop hasn't been measured.
            if (has_short_scales<T> && reads_rolled()) return nullptr;
#endif
            return &Screened<T>::linear;
        }
#endif
        return nullptr;
    }
};

}  // namespace

const Linear *int8_32(const char *type) { return find<Of32>(AllTypes{}, type); }
const Linear *screened_32(const char *type) { return find_screened<Of32>(AllTypes{}, type); }

}  // namespace unladen::cpu::UNLADEN_ISA
