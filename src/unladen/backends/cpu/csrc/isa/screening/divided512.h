// Divided rows of an output head: the coarse rows have the five highest bits of every code, the
// rest has all other bits. Coarse products show for most rows that they can't have the largest
// product, so 35 % of Q8_0 and 15 % of Q6_K aren't read. Coarse and rest together give bit for bit
// the sums of undivided rows.
#pragma once

#include "backends/cpu/csrc/isa/formats/planes512.h"
#include "backends/cpu/csrc/isa/screening/squares.h"

namespace unladen::cpu::UNLADEN_ISA {

// How many bytes of a block of T are its rest; 0: rows of T aren't divided.
template <class T>
constexpr int rest_bytes_of = 0;

// Coarse<T>: coarse blocks of T, whose codes stand for the middle of all codes with these bits.
// Whole<T>: coarse blocks and their rest together.
template <class T>
struct Coarse {
    static constexpr int block_size = T::block_size;
    static constexpr int block_bytes = T::block_bytes - rest_bytes_of<T>;
};
template <class T>
struct Whole : Coarse<T> {
    static constexpr int rest_bytes = rest_bytes_of<T>;
};

// A coarse block and its rest.
struct CoarseAndRest : Interleaved {
    const uint8_t *rest;
};
template <class T>
struct BlockIn<Whole<T>> {
    using type = CoarseAndRest;
};
template <class T>
UNLADEN_INLINE void skip_blocks(CoarseAndRest &w, int n) {
    w.p += size_t(n) * tile_rows * T::block_bytes;
    w.rest += size_t(n) * tile_rows * T::rest_bytes;
}
template <class T>
UNLADEN_INLINE void skip_codes(CoarseAndRest &w, int n) {
    w.p += n;
    w.rest += n / InLanes<T>::n_planes * InLanes<T>::n_rest;
}

}  // namespace unladen::cpu::UNLADEN_ISA
