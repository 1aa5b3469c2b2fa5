// Attention over the paged KV cache: online softmax, one tile of keys after another.
//
// All query rows of a call (the heads that share a K/V head, of several tokens) meet a tile of K
// and V that was turned into float32 once: K transposed, so that keys lie along the vectors. A
// row's result has one fixed order of operations and doesn't depend on its neighbours; keys past
// the end of its context are never multiplied in, not even by zero.
#include "backends/cpu/csrc/isa/attention_load.h"

namespace unladen::cpu::UNLADEN_ISA {

namespace {

// Of the arrays in scratch, in bytes.
constexpr uintptr_t alignment = 64;

inline int padded(int n, int step) { return (n + step - 1) / step * step; }
// Rows of a tile of keys: transposing stores squares of up to 16.
inline int key_rows(int k_dim) { return padded(k_dim, 16); }

template <KVType kv_type>
struct TypeIs {
    static constexpr KVType type = kv_type;
};

// Calls body(TypeIs<type>).
template <typename Body>
inline void with_type(KVType type, Body body) {
    switch (type) {
    case KVType::f32: return body(TypeIs<KVType::f32>{});
    case KVType::f16: return body(TypeIs<KVType::f16>{});
    case KVType::q8_0: return body(TypeIs<KVType::q8_0>{});
    }
}

// One row's step of the online softmax: s becomes e^(s - m) for the m of the keys so far, of which
// it holds n new ones. Returns what older sums must be multiplied by.
float soften(float *s, int n, float &m, float &total) {
    for (int i = n; i < tile_keys; i++) s[i] = -__builtin_inff();
    vec most = splat(m);
    for (int i = 0; i < tile_keys; i += lanes) most = max(most, load(s + i));
    const float now = largest(most);
    vec sums = {};
    for (int i = 0; i < tile_keys; i += lanes) {
        const vec p = exp(load(s + i) - now);
        store(s + i, p);
        sums += p;
    }
    const float keep = now == m ? 1.0f : exp(splat(m - now))[0];
    total = total * keep + sum(sums);
    m = now;
    return keep;
}

// The rows of one call: row r is query head r % group of task r / group. Its arrays lie in the
// caller's scratch.
struct Work {
    const AttentionArgs &args;
    int group, n_rows, k_dim, v_dim, stride;
    KeyTile k;
    float *v;        // the tile's values: [tile_keys][stride]
    float *s, *o;    // [n_rows][tile_keys], [n_rows][stride]
    float *q;        // scaled; by blocks of up to block_rows rows, each [k_dim][rows]
    float *m, *total, *keep;  // [n_rows]: largest score, sum of exponentials, factor of older sums

    Work(const AttentionArgs &a)
        : args(a), group(a.n_heads / a.kv.n_kv_heads), n_rows(group * a.n_tasks),
          k_dim(a.kv.k_dim), v_dim(a.kv.v_dim), stride(padded(v_dim, lanes)) {
        const uintptr_t start = (uintptr_t)a.scratch + alignment - 1;
        k.wide = (float *)(start & ~(alignment - 1));
        const size_t tile = (size_t)key_rows(k_dim) * tile_keys;
        k.narrow = (uint16_t *)(k.wide + tile);
        v = k.wide + tile + tile / 2;
        s = v + (size_t)tile_keys * stride;
        o = s + (size_t)n_rows * tile_keys;
        q = o + (size_t)n_rows * stride;
        m = q + (size_t)n_rows * k_dim;
        total = m + n_rows;
        keep = total + n_rows;
    }

    size_t head_of(int row) const { return (size_t)args.kv_head * group + row % group; }

    // How many keys of the tile at `start` a row sees.
    int seen(int row, int start) const {
        const int n = args.tasks[row / group].n_keys - start;
        return n < 0 ? 0 : least(n, tile_keys);
    }

    void begin() {
        for (int row = 0; row < n_rows; row++) {
            const float *from = args.tasks[row / group].q + head_of(row) * k_dim;
            const int first = row - row % block_rows, rows = least(block_rows, n_rows - first);
            float *to = q + (size_t)first * k_dim + row % block_rows;
            for (int d = 0; d < k_dim; d++) to[d * rows] = from[d] * args.scale;
            m[row] = -__builtin_inff();
            total[row] = 0.0f;
        }
        __builtin_memset(o, 0, (size_t)n_rows * stride * sizeof *o);
    }

    // Calls body(first, rows) for the blocks of rows of which one sees keys from `start` on.
    template <typename Body>
    void each_block(int start, Body body) const {
        for (int first = 0; first < n_rows; first += block_rows) {
            const int rows = least(block_rows, n_rows - first);
            int most = 0;
            for (int r = first; r < first + rows; r++) most |= seen(r, start);
            if (most) body(first, rows);
        }
    }

    // A tile that few rows meet isn't worth a copy in float32.
    bool few_rows() const { return n_rows <= 2 * block_rows; }

    // Scores of the rows with the keys of a tile, as exponentials.
    template <typename T>
    void score(int start, int n_keys, const T *keys) {
        each_block(start, [&](int first, int rows) {
            float *scores = s + (size_t)first * tile_keys;
            with_rows(rows, [&](auto n) {
                score_block<n.value>(scores, q + (size_t)first * k_dim, keys, k_dim, n_keys);
            });
            for (int r = first; r < first + rows; r++, scores += tile_keys) {
                const int n = seen(r, start);
                keep[r] = n ? soften(scores, n, m[r], total[r]) : 1.0f;
            }
        });
    }

    template <KVType type>
    void score(int start, const TileRows &tile, const TileRows &next) {
        load_keys<type>(k, tile, next, k_dim);
        if (type == KVType::f16 && few_rows()) return score(start, tile.n_keys, k.narrow);
        if (type == KVType::f16) widen_keys(k, k_dim);
        score(start, tile.n_keys, k.wide);
    }

    // Adds a tile's values to the rows: of a block together for the keys that all its rows see,
    // then row by row.
    template <typename Values>
    void weigh(int start, Values values) {
        each_block(start, [&](int first, int rows) {
            int common = tile_keys;
            for (int r = first; r < first + rows; r++) common = least(common, seen(r, start));
            float *sums = o + (size_t)first * stride;
            const float *p = s + (size_t)first * tile_keys;
            with_rows(rows, [&](auto n) {
                weigh_block<n.value>(sums, keep + first, p, values, stride, 0, common);
            });
            const float one = 1.0f;
            for (int r = first; r < first + rows; r++, sums += stride, p += tile_keys) {
                const int n = seen(r, start);
                if (n > common) weigh_block<1>(sums, &one, p, values, stride, common, n);
            }
        });
    }

    template <KVType type>
    void weigh(int start, const TileRows &tile, const TileRows &next) {
        if (few_rows() && v_dim == stride) {
            return weigh(start, [&](int key, int d) {
                next.prefetch<type>(key, 1, d);
                return load_row<type>(tile.row[key], d, lanes);
            });
        }
        load_values<type>(v, tile, next, v_dim, stride);
        weigh(start, [&](int key, int d) { return load(v + (size_t)key * stride + d); });
    }

    void finish() const {
        for (int row = 0; row < n_rows; row++) {
            float *out = args.tasks[row / group].out + head_of(row) * v_dim;
            const float *from = o + (size_t)row * stride;
            for (int d = 0; d < v_dim; d += lanes) {
                const vec mean = load(from + d) / total[row];
                store_first(out + d, mean, least(lanes, v_dim - d));
            }
        }
    }
};

}  // namespace

size_t attention_scratch_floats(int n_heads_per_kv, int n_tasks, int k_dim, int v_dim, int) {
    const size_t n_rows = (size_t)n_heads_per_kv * n_tasks, stride = padded(v_dim, lanes);
    const size_t tile = (size_t)key_rows(k_dim) * tile_keys;
    return alignment / sizeof(float) + tile + tile / 2 + tile_keys * stride
        + n_rows * (tile_keys + stride + k_dim + 3);
}

void attention(const AttentionArgs &args) {
    Work work(args);
    const HeadRows k_rows = head_rows(args.kv, true, args.kv_head);
    const HeadRows v_rows = head_rows(args.kv, false, args.kv_head);
    const AttentionTask *longest = args.tasks;
    for (int i = 1; i < args.n_tasks; i++) {
        if (args.tasks[i].n_keys > longest->n_keys) longest = args.tasks + i;
    }
    work.begin();
    const int n_keys = longest->n_keys;
    TileRows keys(k_rows, longest->blocks, 0, n_keys);
    TileRows values(v_rows, longest->blocks, 0, n_keys);
    for (int start = 0; start < n_keys; start += tile_keys) {
        const TileRows next_keys(k_rows, longest->blocks, start + tile_keys, n_keys);
        with_type(args.kv.k_type, [&](auto t) { work.score<t.type>(start, keys, next_keys); });
        const TileRows next_values(v_rows, longest->blocks, start + tile_keys, n_keys);
        with_type(args.kv.v_type, [&](auto t) { work.weigh<t.type>(start, values, next_values); });
        keys = next_keys;
        values = next_values;
    }
    work.finish();
}

}  // namespace unladen::cpu::UNLADEN_ISA
