// Writes one token's K and V into the cache. A number too large for the cache's type is stored as
// NaN, never as infinity: an infinite key can get the weight zero and go unnoticed, while NaN
// reaches the logits and becomes an error.
#include "backends/cpu/csrc/isa/attention/kv.h"

namespace unladen::cpu::UNLADEN_ISA {

namespace {

constexpr uint16_t f16_infinity = 0x7c00, f16_nan = 0x7e00;

// Replaces infinities among `n` float16 by NaN. Returns whether there are any.
bool infinities_to_nan(uint16_t *x, int n) {
    uint16_t any = 0;
    for (int i = 0; i < n; i++) {
        const uint16_t is_infinite = (x[i] & 0x7fff) == f16_infinity;
        x[i] = is_infinite ? f16_nan : x[i];
        any |= is_infinite;
    }
    return any;
}

// d = max |x| / 127, q = x / d to the nearest, ties away from zero, as GGUF writes Q8_0. Returns
// whether d is too large for float16.
bool store_q8(Q8Block *block, const float *x) {
    vec most = {};
    for (int i = 0; i < q8_block; i += lanes) most = max(most, magnitude(load(x + i)));
    const float d = largest(most) / 127.0f;
    const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
    block->d = to_f16(d);
    for (int i = 0; i < q8_block; i++) {
        const float scaled = x[i] * inverse;
        // Only infinities and NaN are larger than 127, which an int8 can't hold.
        float size = __builtin_fabsf(scaled);
        size = size < 127.0f ? size : 127.0f;
        int q = (int)size;
        q += size - (float)q >= 0.5f;
        block->q[i] = (int8_t)(scaled < 0.0f ? -q : q);
    }
    uint16_t stored = block->d;
    const bool is_beyond = infinities_to_nan(&stored, 1);
    block->d = stored;
    return is_beyond;
}

bool store_f16_row(uint16_t *row, const float *x, int dim) {
    int i = 0;
    for (; i + lanes <= dim; i += lanes) store_as_f16(row + i, load(x + i));
    for (; i < dim; i++) row[i] = to_f16(x[i]);
    return infinities_to_nan(row, dim);
}

// Stores a row. Returns whether a number is too large for the type.
bool store_row(uint8_t *row, KVType type, const float *x, int dim) {
    bool is_beyond = false;
    switch (type) {
    case KVType::f32:
        __builtin_memcpy(row, x, (size_t)dim * sizeof *x);
        break;
    case KVType::f16:
        is_beyond = store_f16_row((uint16_t *)row, x, dim);
        break;
    case KVType::q8_0:
        for (int at = 0; at < dim; at += q8_block) {
            const int n = dim - at < q8_block ? dim - at : q8_block;
            float padded[q8_block] = {};
            __builtin_memcpy(padded, x + at, (size_t)n * sizeof *x);
            is_beyond |= store_q8((Q8Block *)row + at / q8_block, padded);
        }
        break;
    }
    return is_beyond;
}

// Makes the first number of a row NaN, or its first block.
void spoil_row(uint8_t *row, KVType type) {
    const float nan = __builtin_nanf("");
    if (type == KVType::f32)
        __builtin_memcpy(row, &nan, sizeof nan);
    else
        __builtin_memcpy(row, &f16_nan, sizeof f16_nan);  // a block begins with its scale
}

// Prefetches the memory of a row that will be written.
void ask_row(const uint8_t *row, KVType type, int dim) {
    const size_t bytes = row_bytes(type, dim);
    for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at, 1);
}

}  // namespace

void kv_store(const KVView &kv, int block, int slot, const float *k, const float *v) {
    // The cache's memory isn't in the processor's caches, since the step before has read all
    // weights.
    for (int head = 0; head < kv.n_kv_heads; head++) {
        ask_row(head_rows(kv, true, head).row(block, slot), kv.k_type, kv.k_dim);
        ask_row(head_rows(kv, false, head).row(block, slot), kv.v_type, kv.v_dim);
    }
    for (int head = 0; head < kv.n_kv_heads; head++) {
        uint8_t *value = head_rows(kv, false, head).row(block, slot);
        const bool is_beyond = store_row(head_rows(kv, true, head).row(block, slot), kv.k_type,
                                         k + (size_t)head * kv.k_dim, kv.k_dim);
        store_row(value, kv.v_type, v + (size_t)head * kv.v_dim, kv.v_dim);
        // A NaN score may lead to a finite weight, but a NaN value makes every sum NaN.
        if (is_beyond && kv.v_dim > 0) spoil_row(value, kv.v_type);
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
