// Attention over the paged KV cache: online softmax, one tile of keys after another.
//
// All query rows of a call (the heads that share a K/V head, of several tokens) meet a tile of K
// and V that was turned into float32 once: K transposed, so that keys lie along the vectors. A
// row's result has one fixed order of operations and doesn't depend on its neighbours; keys
// that it doesn't see are never multiplied in, not even by zero.
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

    // What a row sees of the tile at `start`.
    Span seen(int row, int start) const {
        const AttentionTask &task = args.tasks[row / group];
        return {most(task.first - start, 0), least(task.last - start, tile_keys)};
    }

    void begin() {
        for (int row = 0; row < n_rows; row++) {
            const float *from = args.tasks[row / group].q + head_of(row) * k_dim;
            const int first = row - row % block_rows, rows = least(block_rows, n_rows - first);
            float *to = q + (size_t)first * k_dim + row % block_rows;
            for (int d = 0; d < k_dim; d++) to[d * rows] = from[d] * args.scoring.scale;
            const float *sinks = args.scoring.sinks;
            m[row] = sinks ? sinks[head_of(row)] : -__builtin_inff();
            total[row] = sinks ? 1.0f : 0.0f;
        }
        __builtin_memset(o, 0, (size_t)n_rows * stride * sizeof *o);
    }

    // Calls body(first, rows, any, all) for the blocks of rows that see keys of the tile at
    // `start`: `any` holds the keys that one of them sees, `all` those that each of them does.
    template <typename Body>
    void each_block(int start, Body body) const {
        for (int first = 0; first < n_rows; first += block_rows) {
            const int rows = least(block_rows, n_rows - first);
            Span any = {tile_keys, 0}, all = {0, tile_keys};
            for (int r = first; r < first + rows; r++) {
                const Span keys = seen(r, start);
                all = {most(all.first, keys.first), least(all.last, keys.last)};
                if (keys.empty()) continue;
                any = {least(any.first, keys.first), most(any.last, keys.last)};
            }
            if (!any.empty()) body(first, rows, any, all);
        }
    }

    // A tile that few rows meet isn't worth a copy in float32.
    bool few_rows() const { return n_rows <= 2 * block_rows; }

    // Scores of the rows with the keys of a tile, as exponentials.
    template <typename T>
    void score(int start, const T *keys) {
        each_block(start, [&](int first, int rows, Span any, Span) {
            float *scores = s + (size_t)first * tile_keys;
            with_rows(rows, [&](auto n) {
                score_block<n.value>(scores, q + (size_t)first * k_dim, keys, k_dim,
                                     any.first, any.last);
            });
            for (int r = first; r < first + rows; r++, scores += tile_keys) {
                const Span keys = seen(r, start);
                keep[r] = 1.0f;
                if (keys.empty()) continue;
                adjust(scores, args.scoring, head_of(r), args.tasks[r / group].position - start);
                keep[r] = soften(scores, keys, m[r], total[r]);
            }
        });
    }

    template <KVType type>
    void score(int start, const TileRows &tile, const TileRows &next) {
        load_keys<type>(k, tile, next, k_dim);
        if (type == KVType::f16 && few_rows()) return score(start, k.narrow);
        if (type == KVType::f16) widen_keys(k, k_dim);
        score(start, k.wide);
    }

    // Adds a tile's values to the rows: of a block together for the keys that all its rows see, row
    // by row for those before and after. Each row meets its keys in their order.
    template <typename Values>
    void weigh(int start, Values values) {
        each_block(start, [&](int first, int rows, Span, Span all) {
            if (all.empty()) all = {tile_keys, tile_keys};
            for (int r = first; r < first + rows; r++) {
                const Span keys = seen(r, start);
                weigh_row(r, {keys.first, least(keys.last, all.first)}, values);
            }
            with_rows(rows, [&](auto n) {
                weigh_block<n.value>(o + (size_t)first * stride, keep + first,
                                     s + (size_t)first * tile_keys, values, stride, all.first,
                                     all.last);
            });
            for (int r = first; r < first + rows; r++) {
                keep[r] = 1.0f;
                weigh_row(r, {most(all.last, seen(r, start).first), seen(r, start).last}, values);
            }
        });
    }

    template <typename Values>
    void weigh_row(int row, Span keys, Values values) {
        if (keys.empty()) return;
        weigh_block<1>(o + (size_t)row * stride, keep + row, s + (size_t)row * tile_keys, values,
                       stride, keys.first, keys.last);
        keep[row] = 1.0f;
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
    const int32_t *blocks = args.tasks->blocks;
    int first = args.tasks->first, last = args.tasks->last;
    for (int i = 1; i < args.n_tasks; i++) {
        first = least(first, args.tasks[i].first);
        last = most(last, args.tasks[i].last);
    }
    work.begin();
    // Tiles begin at multiples of their size, so that a row's don't depend on its neighbours.
    int start = first - first % tile_keys;
    TileRows keys(k_rows, blocks, start, first, last);
    TileRows values(v_rows, blocks, start, first, last);
    for (; start < last; start += tile_keys) {
        const TileRows next_keys(k_rows, blocks, start + tile_keys, first, last);
        with_type(args.kv.k_type, [&](auto t) { work.score<t.type>(start, keys, next_keys); });
        const TileRows next_values(v_rows, blocks, start + tile_keys, first, last);
        with_type(args.kv.v_type, [&](auto t) { work.weigh<t.type>(start, values, next_values); });
        keys = next_keys;
        values = next_values;
    }
    work.finish();
}

}  // namespace unladen::cpu::UNLADEN_ISA
