// The part that the three files of int8 products share: int8_32.cc (blocks of 32, 64 and 128),
// int8_256.cc (blocks of 256) and int8_grid.cc (blocks of 256 with codes from tables).
#pragma once

#include <cstring>

#include "backends/cpu/csrc/isa/formats/all.h"
#include "backends/cpu/csrc/isa/products/choose.h"
#include "backends/cpu/csrc/isa/products/loops.h"

namespace unladen::cpu::UNLADEN_ISA {

namespace {

// Whether the header of T defines what int8 products at this level need.
template <class T>
#if defined(UNLADEN_AVX512)
constexpr bool has_int8 = requires { sizeof(InLanes<T>); } || requires { sizeof(Codes512<T>); };
#else
constexpr bool has_int8 = requires { sizeof(Codes<T>); };
#endif

template <class T>
constexpr bool is_looked_up = requires { T::is_looked_up; };

// Formats whose rows are read two blocks of 32 at a time.
template <class T>
#if defined(UNLADEN_AVX2)
constexpr bool by_two = has_nibbles<T>;
#else
constexpr bool by_two = false;
#endif

// The arguments of Linear::run, for blocks of T.
template <class T>
Job job_of(float *y, size_t y_stride, Weights w, int n_first, int n_last, int n_cols,
           const void *act, int t_first, int t_last) {
    const size_t row_bytes = size_t(n_cols / T::block_size) * T::block_bytes;
    return {y,      y_stride, w.data, w.interleaved, row_bytes, n_first, n_last,
            n_cols, act,      t_first, t_last,       w.rest,    w.known, w.next};
}

// The kernel for T if Family<T>::has says that T belongs to the family, else nullptr.
template <template <class> class Family, class T>
const Linear *linear_of() {
    if constexpr (Family<T>::has)
        return &Family<T>::linear;
    else
        return nullptr;
}
template <template <class> class Family, class... T>
const Linear *find(Types<T...>, const char *type) {
    const Linear *found = nullptr;
    ((std::strcmp(type, T::name) == 0 ? void(found = linear_of<Family, T>()) : void()), ...);
    return found;
}

// The same for kernels with a screen.
template <template <class> class Family, class T>
const Linear *screened_of() {
    if constexpr (Family<T>::has)
        return Family<T>::screened();
    else
        return nullptr;
}
template <template <class> class Family, class... T>
const Linear *find_screened(Types<T...>, const char *type) {
    const Linear *found = nullptr;
    ((std::strcmp(type, T::name) == 0 ? void(found = screened_of<Family, T>()) : void()), ...);
    return found;
}

}  // namespace

}  // namespace unladen::cpu::UNLADEN_ISA
