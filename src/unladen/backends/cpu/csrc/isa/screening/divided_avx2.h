// Divided rows of an output head, as in divided512.h, but not interleaved. For each 256 weights the
// coarse row has the scales and planes of the codes' five highest bits; the rest has all other
// bits. Coarse and rest together give bit for bit the sums of undivided rows.
#pragma once

#include "backends/cpu/csrc/isa/formats/planes.h"
#include "backends/cpu/csrc/isa/products/dealt_avx2.h"
#include "backends/cpu/csrc/isa/screening/squares.h"

namespace unladen::cpu::UNLADEN_ISA {

// How many bytes of a block of T are its rest; 0: rows of T aren't divided.
template <class T>
constexpr int rest_bytes_of = 0;

// Coarse<T>: coarse rows, whose codes stand for the middle of all codes with these bits. Whole<T>:
// coarse rows and their rest together.
template <class T>
struct Coarse {
    static constexpr int block_size = 256, n_blocks = 256 / T::block_size;
    static constexpr int whole_bytes = n_blocks * T::block_bytes;
    static constexpr int rest_bytes = n_blocks * rest_bytes_of<T>;
    static constexpr int block_bytes = whole_bytes - rest_bytes;
};
template <class T>
struct Whole : Coarse<T> {};
template <class U>
constexpr bool is_coarse = false;
template <class T>
constexpr bool is_coarse<Coarse<T>> = true;

// Planes of 32 bytes from p on.
struct RowPlanes {
    const uint8_t *p;
    UNLADEN_INLINE Bytes32 operator()(int i) const { return Bytes32::load(p + 32 * i); }
};

// The five highest bits of 32 codes.
UNLADEN_INLINE Bytes32 highest_five(const uint8_t *p, int s) {
    return FivePlanes<0>::line(RowPlanes{p}, s);
}

// The same 256 columns of several divided rows.
struct DividedRows {
    const uint8_t *p, *rest;
    size_t stride, rest_stride;
    DividedRows from(int row) const {
        return {p + row * stride, rest + row * rest_stride, stride, rest_stride};
    }
};

// How 256 weights of T are divided.
// * codes(q, w) reads their codes as unsigned numbers; the five highest bits begin at bit low_bits.
// * put_header(to, w) copies the scales. The planes begin at byte `planes`.
// * join_rest(low, rest) makes n_rest planes of the lowest bits.
// * deal_header(tile, half, rows) deals the scales of eight rows into a tile.
// * whole_codes(T(), p, rest, s), outside of Divided<T>, joins 32 codes from the planes at p and at
//   `rest`.
template <class T>
struct Divided;

}  // namespace unladen::cpu::UNLADEN_ISA
