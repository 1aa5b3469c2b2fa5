// How packed activations lie in memory: linear_pack.cc writes them, the other linear files read.
//
// Activation rows become the columns of panels: a panel holds C of them, four consecutive k of one
// column beside those of the next, which is how a broadcast 4-byte load wants them. Few rows make
// panels of one column, that is plain rows; many make panels of eight. What lacks in the last panel
// and after the last k is zero.
#pragma once

#include "backends/cpu/csrc/isa/level.h"

namespace unladen::cpu::UNLADEN_ISA {

constexpr int few_rows = 4;
constexpr int panel_columns = 8;

// Only the AVX-512 kernels read int8 in panels of eight; float32 always comes in them.
#if defined(__AVX512VNNI__)
constexpr bool int8_in_panels = true;
#else
constexpr bool int8_in_panels = false;
#endif

constexpr int columns_per_panel(ActFormat format, int n_rows) {
    return n_rows > few_rows && (format == ActFormat::f32 || int8_in_panels) ? panel_columns : 1;
}

constexpr size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// Hands out consecutive parts of one buffer, each on a 64-byte boundary relative to its start.
class Carver {
public:
    explicit Carver(const void *base) : base_(static_cast<uint8_t *>(const_cast<void *>(base))) {}
    template <class T>
    T *take(size_t n) {
        T *part = reinterpret_cast<T *>(base_ + used_);
        used_ += round_up(n * sizeof(T), 64);
        return part;
    }
    size_t used() const { return used_; }

private:
    uint8_t *base_;
    size_t used_ = 0;
};

// Panel `index` in packed activations; its pointers may be written through only by the packer.
template <int C>
struct PanelF32 {
    float *x;  // [n_cols, in whole 16s][C]
    size_t bytes;
    PanelF32(const void *base, int n_cols, int index = 0) {
        const size_t n_k = round_up(n_cols, 16);
        bytes = round_up(n_k * C * sizeof(float), 64);
        x = Carver(static_cast<const uint8_t *>(base) + index * bytes).take<float>(n_k * C);
    }
};

// Four blocks of 32 of a row as the AVX-512 kernels for few rows want them: a 128-bit lane, and so
// four 32-bit sums, for each block.
struct Quad {
    int8_t q[2][4][16];   // the blocks' first 16 q, then the others
    int32_t minus[4][4];  // minus a block's sum of q, and three zeros
    float d[4], sum[4];   // x[k] = d * q[k]; d times the sum of q
    int32_t rest[8];      // for whole cache lines
};

// The row of Quads for activation row `index`.
inline Quad *quads(const void *base, int n_cols, int index) {
    const size_t n_quads = round_up(n_cols, 128) / 128;
    return Carver(static_cast<const uint8_t *>(base)).take<Quad>(0) + index * n_quads;
}

// x[k] = d * q[k], a d per 32.
template <int C>
struct Panel32 {
    int8_t *q;      // [n_cols / 4, in whole 16s][C][4]
    float *d;       // [n_blocks, even][C]
    int32_t *minus;  // likewise: minus the sum of q in the block
    float *sum;     // likewise: d times the sum of q
    size_t bytes = 0;
    Panel32() = default;
    Panel32(const void *base, int n_cols, int index = 0) {
        const size_t n_k = round_up(n_cols, 64);
        for (int pass = 0; pass < 2; ++pass) {
            Carver part(static_cast<const uint8_t *>(base) + index * bytes);
            q = part.take<int8_t>(n_k * C);
            d = part.take<float>(n_k / 32 * C);
            minus = part.take<int32_t>(n_k / 32 * C);
            sum = part.take<float>(n_k / 32 * C);
            bytes = part.used();
        }
    }
};

// Where the AVX-512 kernels for few rows want 16 q, number s of 16 in a block: one register holds
// numbers j, j + 4, j + 8 and j + 12, since most formats keep these in bits of the same bytes.
constexpr int lane_order(int s) { return s % 4 * 4 + s / 4; }

// x[k] = d * q[k], a d per 256.
template <int C>
struct Panel256 {
    int8_t *q;       // [n_cols / 4][C][4]; AVX-512, C = 1: as lane_order says
    float *d;        // [n_blocks][C]
    int32_t *minus;   // [n_cols / 16][C]: minus the sum of 16 q
    int16_t *pairs;  // [n_cols / 32][C][2]: the same two by two, for 16-bit dot products
    size_t bytes = 0;
    Panel256() = default;
    Panel256(const void *base, int n_cols, int index = 0) {
        for (int pass = 0; pass < 2; ++pass) {
            Carver part(static_cast<const uint8_t *>(base) + index * bytes);
            q = part.take<int8_t>(size_t(n_cols) * C);
            d = part.take<float>(size_t(n_cols) / 256 * C);
            minus = part.take<int32_t>(size_t(n_cols) / 16 * C);
            pairs = part.take<int16_t>(size_t(n_cols) / 16 * C);
            bytes = part.used();
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
