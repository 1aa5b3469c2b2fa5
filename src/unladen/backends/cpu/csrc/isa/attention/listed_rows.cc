// Attention of one token to listed rows of the cache, for a few heads that share them. Each row is
// decoded once, with the online softmax of Milakov and Gimelshein (2018).
#include "backends/cpu/csrc/isa/attention/kv.h"

namespace unladen::cpu::UNLADEN_ISA {

namespace {

constexpr int tile_rows = 32;

inline vec load_n(const float *p, int n) { return n == lanes ? load(p) : load_first(p, n); }

template <KVType type>
void decode_as(float *y, const uint8_t *row, int n) {
    for (int i = 0; i < n; i += lanes) {
        const int count = n - i < lanes ? n - i : lanes;
        const vec v = load_row<type>(row, i, count);
        if (count == lanes) {
            store(y + i, v);
        } else {
            store_first(y + i, v, count);
        }
    }
}

void decode(float *y, const uint8_t *row, KVType type, int n) {
    switch (type) {
    case KVType::f32: return decode_as<KVType::f32>(y, row, n);
    case KVType::f16: return decode_as<KVType::f16>(y, row, n);
    case KVType::q8_0: return decode_as<KVType::q8_0>(y, row, n);
    }
}

float dot(const float *a, const float *b, int n) {
    vec acc[4] = {};
    int i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
        for (int j = 0; j < 4; j++)
            acc[j] = fma(load(a + i + j * lanes), load(b + i + j * lanes), acc[j]);
    }
    for (int j = 0; i < n; i += lanes, j++) {
        const int count = n - i < lanes ? n - i : lanes;
        acc[j] = fma(load_n(a + i, count), load_n(b + i, count), acc[j]);
    }
    return sum((acc[0] + acc[2]) + (acc[1] + acc[3]));
}

// The state of the online softmax of a head: the score that exponentials refer to, and the sum of
// e^(score - top).
struct Head {
    float top, total;
};

// Adds `count` rows of `width` values, `stride` apart, with these scores to a head's sums in `out`.
void absorb(Head &head, float *out, float *scores, const float *values, int stride, int count,
            int width) {
    vec most = splat(head.top);
    for (int i = count; i < tile_rows; i++) scores[i] = -__builtin_inff();
    for (int i = 0; i < tile_rows; i += lanes) most = max(load(scores + i), most);
    const float top = largest(most);
    const float kept = head.total > 0.0f ? exp(splat(head.top - top))[0] : 0.0f;
    vec total = {};
    for (int i = 0; i < tile_rows; i += lanes) {
        const vec w = exp(load(scores + i) - top);
        store(scores + i, w);
        total += w;
    }
    head = {top, head.total * kept + sum(total)};
    for (int d = 0; d < width; d += lanes) {
        const int n = width - d < lanes ? width - d : lanes;
        vec acc = load_n(out + d, n) * kept;
        for (int i = 0; i < count; i++)
            acc = fma(splat(scores[i]), load_n(values + (size_t)i * stride + d, n), acc);
        if (n == lanes) {
            store(out + d, acc);
        } else {
            store_first(out + d, acc, n);
        }
    }
}

}  // namespace

size_t attention_rows_scratch_floats(int n_heads, int k_dim, int v_dim) {
    return (size_t)tile_rows * (k_dim + v_dim + 1) + 2 * (size_t)n_heads;
}

void attention_rows(const AttentionRowsArgs &a) {
    float *keys = a.scratch, *scores = keys + (size_t)tile_rows * (a.k_dim + a.v_dim);
    Head *heads = (Head *)(scores + tile_rows);
    for (int h = 0; h < a.n_heads; h++) {
        heads[h] = a.sinks ? Head{a.sinks[h], 1.0f} : Head{-__builtin_inff(), 0.0f};
        __builtin_memset(a.out + (size_t)h * a.v_dim, 0, (size_t)a.v_dim * sizeof(float));
    }
    const HeadRows planes[] = {head_rows(a.kv, true, 0), head_rows(a.kv, false, 0)};
    const KVType types[] = {a.kv.k_type, a.kv.v_type};
    for (int r = 0; r < a.n_ranges; r++) {
        const RowRange &range = a.ranges[r];
        const int of_k = (int)range.keys, of_v = (int)range.values;
        float *values = of_k == of_v ? keys : keys + (size_t)tile_rows * a.k_dim;
        const int stride = of_k == of_v ? a.k_dim : a.v_dim;
        for (int at = 0; at < range.n; at += tile_rows) {
            const int count = range.n - at < tile_rows ? range.n - at : tile_rows;
            for (int i = 0; i < count; i++) {
                const int position = range.positions ? range.positions[at + i]
                                                     : range.first + (at + i) * range.step;
                const int block = a.blocks[position / a.kv.block_tokens];
                const int slot = position % a.kv.block_tokens;
                decode(keys + (size_t)i * a.k_dim, planes[of_k].row(block, slot), types[of_k],
                       a.k_dim);
                if (values == keys) continue;
                decode(values + (size_t)i * a.v_dim, planes[of_v].row(block, slot), types[of_v],
                       a.v_dim);
            }
            for (int h = 0; h < a.n_heads; h++) {
                const float *q = a.q + (size_t)h * a.k_dim;
                for (int i = 0; i < count; i++)
                    scores[i] = a.scale * dot(q, keys + (size_t)i * a.k_dim, a.k_dim);
                absorb(heads[h], a.out + (size_t)h * a.v_dim, scores, values, stride, count,
                       a.v_dim);
            }
        }
    }
    for (int h = 0; h < a.n_heads; h++) {
        float *out = a.out + (size_t)h * a.v_dim;
        for (int d = 0; d < a.v_dim; d++) out[d] /= heads[h].total;
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
