// Integer dot products: weights in blocks of small integers, activations in int8.
#include "backends/cpu/csrc/isa/level.h"

#if defined(__AVX512VNNI__)
#include "backends/cpu/csrc/isa/linear_low.h"
#include "backends/cpu/csrc/isa/linear_vnni.h"
#include "backends/cpu/csrc/isa/linear_vnni_rows.h"
#elif defined(__AVX2__)
#include "backends/cpu/csrc/isa/linear_deal.h"
#include "backends/cpu/csrc/isa/linear_int8.h"
#include "backends/cpu/csrc/isa/linear_row256_avx2.h"
#include "backends/cpu/csrc/isa/linear_row32_avx2.h"
#include "backends/cpu/csrc/isa/linear_screen.h"
#include "backends/cpu/csrc/isa/linear_two_avx2.h"
#elif defined(UNLADEN_NEON)
#include "backends/cpu/csrc/isa/linear_deal.h"
#include "backends/cpu/csrc/isa/linear_int8.h"
#else
#include "backends/cpu/csrc/isa/linear_int8.h"
#endif
#include "backends/cpu/csrc/isa/linear_types.h"

namespace unladen::cpu::UNLADEN_ISA {

namespace {

using Int8Types =
    Types<Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, MXFP4, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS,
          IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, TQ1_0, TQ2_0>;

#if defined(__AVX512VNNI__)
template <class T>
constexpr bool interleaves = can_interleave<T>;
#else
template <class T>
constexpr bool interleaves = false;
#endif

// Formats whose rows are taken two blocks of 32 at a time.
#if defined(__AVX2__) && !defined(__AVX512VNNI__)
template <class T>
constexpr bool by_two = has_nibbles<T>;
#else
template <class T>
constexpr bool by_two = false;
#endif

#if defined(__AVX2__) && !defined(__AVX512VNNI__)
// What multiplies one row of blocks of 256.
template <class T>
struct OfRow256 {
    using Kernel = Int8Of256<T>;
};
template <>
struct OfRow256<IQ4_XS> {
    using Kernel = RowOfIQ4XS;
};
template <>
struct OfRow256<Q3_K> {
    using Kernel = RowOfQ3K;
};
template <>
struct OfRow256<Q4_K> {
    using Kernel = RowOfK<Q4_K>;
};
template <>
struct OfRow256<Q5_K> {
    using Kernel = RowOfK<Q5_K>;
};
#endif

template <class T>
constexpr ActFormat format =
    T::block_size == 32 ? (by_two<T> ? ActFormat::q8_32_pairs : ActFormat::q8_32)
    : by_two<T>         ? ActFormat::q8_256_pairs
    : in_lanes && !interleaves<T> ? ActFormat::q8_256_lanes
                                  : ActFormat::q8_256;

template <class T>
void run(float *y, size_t y_stride, Weights w, int n_first, int n_last, int n_cols,
         const void *act, int n_rows, int t_first, int t_last) {
    const size_t row_bytes = size_t(n_cols / T::block_size) * T::block_bytes;
    Job job = {y,      y_stride, w.data, w.interleaved, row_bytes, n_first, n_last,
               n_cols, act,      t_first, t_last,       w.rest,    w.known, w.next};
    [[maybe_unused]] constexpr bool of_32 = T::block_size == 32;
    [[maybe_unused]] const bool panels = in_panels(format<T>, n_rows);
#if defined(__AVX512VNNI__)
    if constexpr (has_short_scales<T>) {
        using S = Shortened<T>;
        if (w.interleaved && S::fits(n_cols)) {
            job.row_bytes = size_t(n_cols / S::block_size) * S::block_bytes;
            return run_moved<S, FewShort, TiledShort>(job, panels);
        }
    }
    if constexpr (of_32)
        run_interleaved<T, Few32, Tiled32>(job, panels);
    else if constexpr (interleaves<T>)
        run_interleaved<T, Few256, Tiled256>(job, panels);
    else
        run_rows_apart<T>(job, panels);
#elif defined(__AVX2__)
    panels ? run_tiles<Choose<of_32, Dealt32<T>, Dealt256<T>>>(job)
           : run_rows_as_known<Choose<of_32, Row32Of<T>, typename OfRow256<T>::Kernel>>(job);
#elif defined(UNLADEN_NEON)
    panels ? run_tiles<Choose<of_32, Dealt32<T>, Dealt256<T>>>(job)
           : run_rows<Choose<of_32, Int8Of32<T>, Int8Of256<T>>>(job);
#else
    run_rows<Choose<of_32, Int8Of32<T>, Int8Of256<T>>>(job);
#endif
}

template <class T>
constexpr Linear linear_of() {
    Linear linear = {format<T>, T::block_size, T::block_bytes, 16, run<T>};
#if defined(__AVX512VNNI__)
    if constexpr (interleaves<T>) linear.interleave = interleave_rows<T>;
    if constexpr (has_short_scales<T>) {
        linear.interleave = shorten_rows<T>;
        linear.rest_block = Shortened<T>::block_size;
        linear.rest_bytes = Shortened<T>::high_bytes;
        linear.n_known = ScaleOrigin::n_bytes / sizeof(float);
    }
#endif
    return linear;
}
template <class T>
constexpr Linear linear_for = linear_of<T>();

template <class... T>
const Linear *find(Types<T...>, const char *type) {
    const Linear *found = nullptr;
    ((std::strcmp(type, T::name) == 0 ? void(found = &linear_for<T>) : void()), ...);
    return found;
}

}  // namespace

const Linear *linear_int8(const char *type) { return find(Int8Types{}, type); }

#if defined(__AVX2__)
namespace {

// Rows in two parts: U is Coarse<T> or Whole<T>, of Q4_0 ShortParts.
template <class T, class U>
void run_parts(float *y, size_t y_stride, Weights w, int n_first, int n_last, int n_cols,
               const void *act, int n_rows, int t_first, int t_last) {
    if (!w.interleaved) {
        return run<T>(y, y_stride, w, n_first, n_last, n_cols, act, n_rows, t_first, t_last);
    }
    const size_t row_bytes = size_t(n_cols / U::block_size) * U::block_bytes;
    const Job job = {y,      y_stride, w.data,  true,   row_bytes, n_first, n_last,
                     n_cols, act,      t_first, t_last, w.rest,    w.known, w.next};
    [[maybe_unused]] const bool panels = in_panels(format<T>, n_rows);
    constexpr bool of_32 = T::block_size == 32;
#if defined(__AVX512VNNI__)
    if constexpr (requires { U::spared_bytes; }) {
        if constexpr (U::is_coarse)
            panels ? run_panel<U, FewShort>(job) : run_one<U, FewShort>(job);
        else
            run_blocks<U, FewShort, TiledShort>(job, panels);
    } else if constexpr (of_32)
        run_moved<U, Few32, Tiled32>(job, panels);
    else
        run_moved<U, Few256, Tiled256>(job, panels);
#else
    if constexpr (!is_coarse<U>) {
        if (panels) return run_tiles<DealtParts<T>>(job);
    }
    run_rows_as_known<Choose<of_32, Row32InParts<U>, Row256InParts<U>>>(job);
#endif
}

template <class T>
void divide(uint8_t *to, uint8_t *rest, float *reach, const uint8_t *w, int n_rows, int n_cols) {
    divide_rows<T>(to, rest, w, n_rows, n_cols);
    measure<T>(reach, w, n_rows, n_cols);
}

// Up to how many activation rows the first parts meet.
constexpr int most_screened_rows = in_lanes ? 0x7fffffff : few_int8_rows;
template <class T>
constexpr Screen screen_of = {run_parts<T, Coarse<T>>, lengths<T>, most_screened_rows,
                              Whole<T>::rest_bytes};
template <class T>
constexpr Linear screened = {format<T>, T::block_size, T::block_bytes, 16,
                             run_parts<T, Whole<T>>, divide<T>, Whole<T>::block_size,
                             Whole<T>::rest_bytes, 1, &screen_of<T>};

#if defined(__AVX512VNNI__)
void divide_short(uint8_t *to, uint8_t *rest, float *known, const uint8_t *w, int n_rows,
                  int n_cols) {
    using T = ShortParts<false>;
    shorten_to<T, ShortPartsPlace>(to, rest, known, w, n_rows, n_cols);
    measure_short(known, w, n_rows, n_cols);
}
constexpr Screen short_screen = {run_parts<Q4_0, ShortParts<true>>, lengths_short, panel_columns,
                                 ShortParts<true>::spared_bytes, &second_look};
constexpr Linear screened_short = {
    format<Q4_0>, Q4_0::block_size, Q4_0::block_bytes, 16, run_parts<Q4_0, ShortParts<false>>,
    divide_short, ShortParts<false>::block_size, ShortParts<false>::apart_bytes,
    ShortParts<false>::n_known, &short_screen};
#endif

}  // namespace

const Linear *screened_linear(const char *type) {
    if (std::strcmp(type, Q8_0::name) == 0) return &screened<Q8_0>;
    if (std::strcmp(type, Q6_K::name) == 0) return &screened<Q6_K>;
#if defined(__AVX512VNNI__)
    // Not where one column is read in loops over a block's parts: these would be of two kinds, and
    // whether that is faster hasn't been measured.
    if (std::strcmp(type, Q4_0::name) == 0 && !reads_rolled()) return &screened_short;
#endif
    return nullptr;
}
#else
const Linear *screened_linear(const char *) { return nullptr; }
#endif

}  // namespace unladen::cpu::UNLADEN_ISA
