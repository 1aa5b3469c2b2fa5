// Attention over the paged KV cache: online softmax, one tile of keys after another.
//
// The query rows of a call are those of several tokens, for the heads that share a K/V head. For
// many rows a tile of K and V is converted to float32 once, with K transposed, so that a vector
// holds several keys. A few rows read K and V from the cache. Either way a row's result has one
// fixed order of operations and doesn't depend on its neighbours. Keys that a row doesn't see are
// never multiplied, not even by zero.
#include "backends/cpu/csrc/isa/attention/few_rows.h"

namespace unladen::cpu::UNLADEN_ISA {

namespace {

// Alignment of the arrays in scratch, in bytes.
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
    int group, n_rows, k_dim, v_dim, k_stride, v_stride;
    int block;       // rows that are computed together
    bool few;        // too few rows for a copy of K and V to pay
    Span any, all;   // the keys that at least one row sees, and those that all rows see
    KeyTile k;
    float *v;        // the tile's values: [tile_keys][v_stride]
    float *s, *o;    // [n_rows][tile_keys], [n_rows][v_stride]
    float *q;        // scaled; few rows: [n_rows][k_stride]; many: blocks of [k_dim][rows]
    Softmax *sums;   // [n_rows]
    float *keep;     // [n_rows]: the factor of older sums

    Work(const AttentionArgs &a)
        : args(a), group(a.n_heads / a.kv.n_kv_heads), n_rows(group * a.n_tasks),
          k_dim(a.kv.k_dim), v_dim(a.kv.v_dim), k_stride(key_rows(k_dim)),
          v_stride(padded(v_dim, lanes)), few(!a.one_order && n_rows <= 2 * block_rows) {
        const int n_blocks = (n_rows + block_rows - 1) / block_rows;
        block = (n_rows + n_blocks - 1) / n_blocks;
        const uintptr_t start = (uintptr_t)a.scratch + alignment - 1;
        sums = (Softmax *)(start & ~(alignment - 1));
        k.wide = (float *)(sums + n_rows);
        const size_t tile = (size_t)k_stride * tile_keys;
        k.narrow = (uint16_t *)(k.wide + tile);
        v = k.wide + tile + tile / 2;
        s = v + (size_t)tile_keys * v_stride;
        o = s + (size_t)n_rows * tile_keys;
        q = o + (size_t)n_rows * v_stride;
        keep = q + (size_t)n_rows * k_stride;
    }

    int head_of(int row) const { return args.kv_head * group + row % group; }

    // The keys of the tile at `start` that a row sees.
    Span seen(int row, int start) const {
        const AttentionTask &task = args.tasks[row / group];
        return {most(task.first - start, 0), least(task.last - start, tile_keys)};
    }

    void begin() {
        const float *sinks = args.scoring.sinks;
        any = all = {args.tasks->first, args.tasks->last};
        for (int i = 1; i < args.n_tasks; i++) {
            const AttentionTask &task = args.tasks[i];
            any = {least(any.first, task.first), most(any.last, task.last)};
            all = {most(all.first, task.first), least(all.last, task.last)};
        }
        for (int row = 0; row < n_rows; row++) {
            const float *from = args.tasks[row / group].q + (size_t)head_of(row) * k_dim;
            const int first = row - row % block, rows = least(block, n_rows - first);
            float *to = q + (few ? (size_t)row * k_stride : (size_t)first * k_dim + row % block);
            const int step = few ? 1 : rows;
            for (int d = 0; d < k_dim; d++) to[d * step] = from[d] * args.scoring.scale;
            for (int d = k_dim; few && d < k_stride; d++) to[d] = 0.0f;
            sums[row] = Softmax{sinks ? sinks[head_of(row)] : -__builtin_inff(), vec{}};
            if (sinks) sums[row].total[0] = 1.0f;
        }
        __builtin_memset(o, 0, (size_t)n_rows * v_stride * sizeof *o);
    }

    // Calls body(first, rows, any, all) for the blocks of rows that see keys of the tile at
    // `start`: `any` are the keys that at least one row sees, `all` those that every row sees.
    template <typename Body>
    void each_block(int start, Body body) const {
        const bool whole = all.first <= start && start + tile_keys <= all.last;
        for (int first = 0; first < n_rows; first += block) {
            const int rows = least(block, n_rows - first);
            Span one = {tile_keys, 0}, each = {0, tile_keys};
            if (whole) one = each;
            for (int r = first; !whole && r < first + rows; r++) {
                const Span keys = seen(r, start);
                each = {most(each.first, keys.first), least(each.last, keys.last)};
                if (keys.empty()) continue;
                one = {least(one.first, keys.first), most(one.last, keys.last)};
            }
            if (!one.empty()) body(first, rows, one, each);
        }
    }

    // The rows' scores with the keys of a tile, as exponentials. products(n, s, first, keys) fills
    // s [n.value][tile_keys] for the block that begins with row `first`.
    template <typename Products>
    void score(int start, Products products) {
        each_block(start, [&](int first, int rows, Span one, Span each) {
            float *scores = s + (size_t)first * tile_keys;
            with_rows(rows, [&](auto n) { products(n, scores, first, one); });
            const bool alike = one.first == each.first && one.last == each.last;
            for (int r = first; r < first + rows; r++, scores += tile_keys) {
                const Span keys = alike ? each : seen(r, start);
                keep[r] = 1.0f;
                if (keys.empty()) continue;
                if (args.scoring.softcap > 0.0f || args.scoring.slopes) {
                    const int position = args.tasks[r / group].position;
                    adjust(scores, args.scoring, head_of(r), position - start);
                }
                keep[r] = soften(scores, keys, sums[r]);
            }
        });
    }

    template <KVType type>
    void score(int start, const TileRows &tile, const TileRows &next) {
        if (few) {
            return score(start, [&](auto n, float *scores, int first, Span keys) {
                score_few<n.value, type>(scores, q + (size_t)first * k_stride, k_stride, tile, next,
                                         k_dim, keys);
            });
        }
        load_keys<type>(k, tile, next, k_dim);
        if (type == KVType::f16) widen_keys(k, k_dim);
        score(start, [&](auto n, float *scores, int first, Span keys) {
            score_block<n.value>(scores, q + (size_t)first * k_dim, k.wide, k_dim, keys.first,
                                 keys.last);
        });
    }

    // Adds a tile's values to the rows: for keys that all rows of a block see, to the whole block;
    // for the keys before and after, row by row. Each row adds its keys in order.
    template <typename Values>
    void weigh(int start, Values values) {
        each_block(start, [&](int first, int rows, Span one, Span each) {
            if (each.empty()) each = {tile_keys, tile_keys};
            for (int r = first; one.first < each.first && r < first + rows; r++) {
                const Span keys = seen(r, start);
                weigh_row(r, {keys.first, least(keys.last, each.first)}, values);
            }
            with_rows(rows, [&](auto n) {
                weigh_block<n.value>(o + (size_t)first * v_stride, keep + first,
                                     s + (size_t)first * tile_keys, values, v_stride, each.first,
                                     each.last);
            });
            for (int r = first; each.last < one.last && r < first + rows; r++) {
                const Span keys = seen(r, start);
                keep[r] = 1.0f;
                weigh_row(r, {most(each.last, keys.first), keys.last}, values);
            }
        });
    }

    template <typename Values>
    void weigh_row(int row, Span keys, Values values) {
        if (keys.empty()) return;
        weigh_block<1>(o + (size_t)row * v_stride, keep + row, s + (size_t)row * tile_keys, values,
                       v_stride, keys.first, keys.last);
        keep[row] = 1.0f;
    }

    template <KVType type>
    void weigh(int start, const TileRows &tile, const TileRows &next) {
        if (few && v_dim == v_stride) {
            return weigh(start, [&](int key, int d) {
                next.prefetch<type>(key, 1, d);
                return load_row<type>(tile.row[key], d, lanes);
            });
        }
        load_values<type>(v, tile, next, v_dim, v_stride);
        weigh(start, [&](int key, int d) { return load(v + (size_t)key * v_stride + d); });
    }

    void finish() const {
        for (int row = 0; row < n_rows; row++) {
            const AttentionTask &task = args.tasks[row / group];
            const size_t head = head_of(row);
            float *out = task.part ? task.part + head * (v_dim + 2) : task.out + head * v_dim;
            const float *from = o + (size_t)row * v_stride;
            const float total = sum(sums[row].total), share = task.part ? 1.0f : total;
            for (int d = 0; d < v_dim; d += lanes) {
                store_first(out + d, load(from + d) / share, least(lanes, v_dim - d));
            }
            if (!task.part) continue;
            out[v_dim] = sums[row].top;
            out[v_dim + 1] = total;
        }
    }
};

}  // namespace

size_t attention_scratch_floats(int n_heads_per_kv, int n_tasks, int k_dim, int v_dim, int) {
    const size_t n_rows = (size_t)n_heads_per_kv * n_tasks, v_stride = padded(v_dim, lanes);
    const size_t k_stride = key_rows(k_dim), tile = k_stride * tile_keys;
    return alignment / sizeof(float) + tile + tile / 2 + tile_keys * v_stride
        + n_rows * (tile_keys + v_stride + k_stride + 1 + sizeof(Softmax) / sizeof(float));
}

void attention(const AttentionArgs &args) {
    Work work(args);
    const HeadRows k_rows = head_rows(args.kv, true, args.kv_head);
    const HeadRows v_rows = head_rows(args.kv, false, args.kv_head);
    const int32_t *blocks = args.tasks->blocks;
    work.begin();
    const auto [first, last] = work.any;
    // Tiles begin at multiples of their size, so that a row's don't depend on its neighbours.
    int start = first - first % tile_keys;
    TileRows keys(k_rows, blocks, start, first, last);
    TileRows values(v_rows, blocks, start, first, last);
    if (work.few) {
        // Later tiles are prefetched in pieces during products. The first one is prefetched at
        // once, since there is nothing to compute yet.
        keys.prefetch_all(k_rows.row_bytes);
        values.prefetch_all(v_rows.row_bytes);
    }
    // During the last tile, the first tile of the next head is prefetched: the same thread mostly
    // computes that next.
    const int head_after = least(args.kv_head + 1, args.kv.n_kv_heads - 1), first_tile = start;
    for (; start < last; start += tile_keys) {
        const bool is_last = start + tile_keys >= last;
        const int head = is_last ? head_after : args.kv_head;
        const int next = is_last ? first_tile : start + tile_keys;
        const TileRows next_keys(head_rows(args.kv, true, head), blocks, next, first, last);
        with_type(args.kv.k_type, [&](auto t) { work.score<t.type>(start, keys, next_keys); });
        const TileRows next_values(head_rows(args.kv, false, head), blocks, next, first, last);
        with_type(args.kv.v_type, [&](auto t) { work.weigh<t.type>(start, values, next_values); });
        keys = next_keys;
        values = next_values;
    }
    work.finish();
}

void attention_merge(float *out, const float *parts, int n_parts, int n_heads, int v_dim) {
    const size_t row = (size_t)v_dim + 2, step = n_heads * row;
    for (int head = 0; head < n_heads; head++, parts += row, out += v_dim) {
        float top = parts[v_dim], total = 0.0f;
        for (int i = 1; i < n_parts; i++) top = max(splat(parts[i * step + v_dim]), splat(top))[0];
        for (int i = 0; i < n_parts; i++) {
            const float *part = parts + i * step;
            const float weight = exp(splat(part[v_dim] - top))[0];
            total = fma(splat(weight), splat(part[v_dim + 1]), splat(total))[0];
            for (int d = 0; d < v_dim; d += lanes) {
                const int n = least(lanes, v_dim - d);
                const vec sums = i ? load_first(out + d, n) : vec{};
                store_first(out + d, fma(splat(weight), load_first(part + d, n), sums), n);
            }
        }
        for (int d = 0; d < v_dim; d += lanes) {
            const int n = least(lanes, v_dim - d);
            store_first(out + d, load_first(out + d, n) / total, n);
        }
    }
}

}  // namespace unladen::cpu::UNLADEN_ISA
