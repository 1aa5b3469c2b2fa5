// Rows of the KV cache: their addresses and how their numbers are read.
#pragma once

#include "backends/cpu/csrc/isa/simd/float.h"

namespace unladen::cpu::UNLADEN_ISA {

// q8_0 as in GGUF; a row whose length isn't a multiple of 32 ends in a block padded with zeros.
inline constexpr int q8_block = 32;
struct Q8Block {
    uint16_t d;
    int8_t q[q8_block];
};
static_assert(sizeof(Q8Block) == 34);

static inline size_t row_bytes(KVType type, int dim) {
    switch (type) {
    case KVType::f32: return (size_t)dim * sizeof(float);
    case KVType::f16: return (size_t)dim * sizeof(uint16_t);
    case KVType::q8_0: break;
    }
    return (size_t)((dim + q8_block - 1) / q8_block) * sizeof(Q8Block);
}

// The place of one head's rows of K or V.
struct HeadRows {
    uint8_t *base;
    size_t row_bytes;
    size_t block_bytes;  // from a token to the same one in the next block
    int block_tokens;

    uint8_t *row(int block, int slot) const {
        return base + (size_t)block * block_bytes + (size_t)slot * row_bytes;
    }
};

static inline HeadRows head_rows(const KVView &kv, bool of_k, int head) {
    const size_t row = of_k ? row_bytes(kv.k_type, kv.k_dim) : row_bytes(kv.v_type, kv.v_dim);
    const size_t head_bytes = (size_t)kv.block_tokens * row;
    return {(of_k ? kv.k : kv.v) + (size_t)head * head_bytes, row,
            (size_t)kv.n_kv_heads * head_bytes, kv.block_tokens};
}

// Numbers [at, at + n) of a row, zeros behind them; `at` is a multiple of `lanes`.
template <KVType type>
static inline vec load_row(const uint8_t *row, int at, int n) {
    if constexpr (type == KVType::f32) {
        const float *p = (const float *)row + at;
        return n == lanes ? load(p) : load_first(p, n);
    } else if constexpr (type == KVType::f16) {
        const uint16_t *p = (const uint16_t *)row + at;
        return n == lanes ? load_f16(p) : load_first_f16(p, n);
    } else {
        const Q8Block *block = (const Q8Block *)row + at / q8_block;
        return load_i8(block->q + at % q8_block) * from_f16(block->d);
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
