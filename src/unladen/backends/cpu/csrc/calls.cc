#include "backends/cpu/csrc/calls.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "backends/cpu/csrc/cpu.h"
#include "backends/cpu/csrc/names.h"

namespace unladen::cpu::calls {
namespace {

void require(bool condition, const char *what) {
    if (!condition) throw std::invalid_argument(what);
}

// `n` as an int, the type of sizes in kernels.
int size_of(size_t n) {
    require(n <= size_t(std::numeric_limits<int>::max()), "an array is too long");
    return int(n);
}

size_t kv_row_bytes(KVType type, size_t dim) {
    switch (type) {
    case KVType::f32: return 4 * dim;
    case KVType::f16: return 2 * dim;
    case KVType::q8_0: break;
    }
    return (dim + 31) / 32 * 34;
}

const float *weights_for(const std::optional<Floats> &w, size_t n) {
    require(!w || w->size() == n, "weights need the length of x");
    return w ? w->data : nullptr;
}

// A cache of n_blocks blocks, with its memory.
struct Cache {
    std::vector<uint8_t> k, v;
    KVView view;

    Cache(const std::string &k_type, const std::string &v_type, size_t n_blocks,
          size_t n_kv_heads, size_t k_dim, size_t v_dim, int block_tokens)
        : view{nullptr,        nullptr,        named<KVType>(k_type), named<KVType>(v_type),
               int(n_kv_heads), int(k_dim),    int(v_dim),            block_tokens} {
        const size_t rows = n_blocks * n_kv_heads * size_t(block_tokens);
        k.resize(rows * kv_row_bytes(view.k_type, k_dim));
        v.resize(rows * kv_row_bytes(view.v_type, v_dim));
        view.k = k.data();
        view.v = v.data();
    }
};

const Linear &linear_named(const Kernels &kernels, const std::string &type, bool precise) {
    const Linear *linear = kernels.linear(type.c_str(), precise);
    if (!linear) throw std::invalid_argument("no kernel multiplies by " + type);
    return *linear;
}

void require_blocks(const Linear &linear, const Bytes &raw, int n_rows, int n) {
    require(n >= 0 && n_rows >= 0 && n % linear.block_size == 0,
            "a row holds a whole number of blocks");
    require(raw.size() == size_t(n_rows) * linear.row_bytes(n),
            "the raw bytes don't fit the number of weights");
}

// Rows of x, packed.
struct PackedRows {
    std::vector<uint8_t> memory;
    void *act;

    PackedRows(const Packer &packer, const Floats &x) {
        const int n_rows = size_of(x.shape[0]), n_cols = size_of(x.shape[1]);
        // The memory begins at a cache line, as in programs.
        memory.resize(packer.bytes(n_rows, n_cols) + 64);
        act = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
        packer.pack(act, {x.data, x.shape[1]}, n_rows, n_cols, 0, n_rows, 0, n_cols);
    }
};

void require_range(Range range, int n, int granule) {
    require(range.first >= 0 && range.first <= range.second && range.second <= n,
            "a range is out of bounds");
    require(range.first % granule == 0, "a range begins inside a granule");
}

}  // namespace

Result rms_norm(Floats x, std::optional<Floats> w, float eps, const std::string &level) {
    std::vector<float> y(x.size());
    kernels_for(level)->rms_norm(y.data(), x.data, weights_for(w, x.size()), size_of(x.size()),
                                 eps);
    return {y, x.shape};
}

Result layer_norm(Floats x, std::optional<Floats> w, std::optional<Floats> b, float eps,
                  const std::string &level) {
    std::vector<float> y(x.size());
    kernels_for(level)->layer_norm(y.data(), x.data, weights_for(w, x.size()),
                                   weights_for(b, x.size()), size_of(x.size()), eps);
    return {y, x.shape};
}

Result rope(Floats x, Floats cs, bool neox, const std::string &level) {
    require(cs.shape[1] == 2, "cs holds pairs (cos, sin)");
    require(2 * cs.shape[0] <= x.shape[1], "a head has fewer dimensions than cs turns");
    std::vector<float> y(x.size());
    kernels_for(level)->rope(y.data(), x.data, cs.data, size_of(x.shape[0]), size_of(x.shape[1]),
                             2 * size_of(cs.shape[0]), neox);
    return {y, x.shape};
}

Result activate(Floats x, const std::string &act, const std::string &level) {
    std::vector<float> y(x.size());
    kernels_for(level)->activate(y.data(), x.data, size_of(x.size()), named<Activation>(act));
    return {y, x.shape};
}

Result glu(Floats gate, Floats up, const std::string &act, const std::string &level) {
    require(gate.size() == up.size(), "gate and up differ in length");
    std::vector<float> y(up.size());
    kernels_for(level)->glu(y.data(), gate.data, up.data, size_of(up.size()),
                            named<Activation>(act));
    return {y, up.shape};
}

Result add(Floats a, Floats b, const std::string &level) {
    require(a.size() == b.size(), "a and b differ in length");
    std::vector<float> y(a.size());
    kernels_for(level)->add(y.data(), a.data, b.data, size_of(a.size()));
    return {y, a.shape};
}

Result largest(Floats x, const std::string &level) {
    std::vector<float> y((x.size() + interleaved_rows - 1) / interleaved_rows);
    kernels_for(level)->largest(y.data(), x.data, size_of(x.size()));
    return {y, {y.size()}};
}

Result scale_add(Floats y, Floats x, float s, const std::string &level) {
    require(y.size() == x.size(), "y and x differ in length");
    std::vector<float> sum(y.data, y.data + y.size());
    kernels_for(level)->scale_add(sum.data(), x.data, size_of(x.size()), s);
    return {sum, y.shape};
}

std::pair<std::vector<uint8_t>, std::vector<uint8_t>> kv_store(
    Floats k, Floats v, const std::string &k_type, const std::string &v_type,
    const std::string &level) {
    const size_t heads = k.shape[0];
    require(v.shape[0] == heads, "k and v differ in heads");
    Cache cache(k_type, v_type, 1, heads, k.shape[1], v.shape[1], 1);
    kernels_for(level)->kv_store(cache.view, 0, 0, k.data, v.data);
    return {std::move(cache.k), std::move(cache.v)};
}

Result attention(const Attention &a, const std::string &level) {
    const Kernels &kernels = *kernels_for(level);
    const size_t n_tasks = a.q.shape[0], n_heads = a.q.shape[1], k_dim = a.q.shape[2];
    const size_t n_keys = a.k.shape[0], n_kv_heads = a.k.shape[1], v_dim = a.v.shape[2];
    require(a.k.shape[2] == k_dim && a.v.shape[0] == n_keys && a.v.shape[1] == n_kv_heads,
            "q [n_tasks, n_heads, k_dim], k [n_keys, n_kv_heads, k_dim] and v [n_keys, n_kv_heads, "
            "v_dim] don't agree");
    require(n_kv_heads > 0 && n_heads > 0 && n_heads % n_kv_heads == 0 && n_tasks > 0 &&
            k_dim > 0 && v_dim > 0, "nothing to attend with");
    require(a.seen.shape[0] == n_tasks && a.seen.shape[1] == 3, "seen is [n_tasks, 3]");
    const auto seen = [&](size_t task) { return a.seen.data + 3 * task; };
    for (size_t i = 0; i < n_tasks; i++) {
        require(seen(i)[1] >= 0 && seen(i)[1] < seen(i)[2] && size_t(seen(i)[2]) <= n_keys,
                "a task sees keys that don't exist, or none");
    }
    require((!a.slopes || a.slopes->size() == n_heads) && (!a.sinks || a.sinks->size() == n_heads),
            "one slope and one sink per head");
    const size_t n_entries = a.block_table.size();
    require(a.block_tokens >= 1 && n_entries * size_t(a.block_tokens) >= n_keys,
            "the block table is too short");
    size_of(a.q.size()), size_of(a.k.size()), size_of(a.v.size());
    int32_t n_blocks = 0;
    for (size_t i = 0; i < n_entries; i++) {
        const int32_t block = a.block_table.data[i];
        require(block >= 0 && size_t(block) < 4 * n_entries + 4,
                "a block's number is out of bounds");
        n_blocks = std::max(n_blocks, block + 1);
    }
    Cache cache(a.k_type, a.v_type, n_blocks, n_kv_heads, k_dim, v_dim, a.block_tokens);
    for (size_t i = 0; i < n_keys; i++) {
        kernels.kv_store(cache.view, a.block_table.data[i / a.block_tokens],
                         int(i % a.block_tokens), a.k.data + i * n_kv_heads * k_dim,
                         a.v.data + i * n_kv_heads * v_dim);
    }
    std::vector<float> y(n_tasks * n_heads * v_dim);
    std::vector<AttentionTask> tasks(n_tasks);
    for (size_t i = 0; i < n_tasks; i++) {
        tasks[i] = {a.q.data + i * n_heads * k_dim, &y[i * n_heads * v_dim], a.block_table.data,
                    seen(i)[0], seen(i)[1], seen(i)[2], nullptr};
    }
    const Scoring scoring{a.scale, a.softcap, a.slopes ? a.slopes->data : nullptr,
                          a.sinks ? a.sinks->data : nullptr};
    std::vector<float> scratch(kernels.attention_scratch_floats(
        int(n_heads / n_kv_heads), int(n_tasks), int(k_dim), int(v_dim), a.block_tokens));
    for (int head = 0; head < int(n_kv_heads); head++) {
        kernels.attention({cache.view, int(n_heads), scoring, tasks.data(), int(n_tasks), head,
                           scratch.data(), false});
    }
    return {y, {n_tasks, n_heads, v_dim}};
}

Result dequantize(const std::string &type, Bytes raw, int n, const std::string &level) {
    const Kernels &kernels = *kernels_for(level);
    require_blocks(linear_named(kernels, type, true), raw, 1, n);
    Kernels::Dequantize run = kernels.dequantize(type.c_str());
    if (!run) throw std::invalid_argument("no kernel reads " + type);
    std::vector<float> y(n);
    run(y.data(), raw.data, n);
    return {y, {size_t(n)}};
}

namespace {

// Interleaved rows as the kernel reads them. Their number is a multiple of sixteen.
struct Divided {
    std::vector<uint8_t> first, rest;
    std::vector<float> known;

    Divided(const Linear &linear, const uint8_t *w, int n_rows, int n_cols) {
        const size_t rest_bytes = linear.row_rest_bytes(n_cols);
        first.resize(n_rows * (linear.row_bytes(n_cols) - rest_bytes));
        rest.resize(n_rows * rest_bytes);
        known.resize(linear.n_known_of(n_rows, n_cols));
        linear.interleave(first.data(), rest.data(), known.data(), w, n_rows, n_cols);
    }
    Weights weights() const { return {first.data(), true, rest.data(), known.data()}; }
};

// Fills to.more and to.off for all rows.
void second_look(Screened &to, const Linear &linear, const Divided &divided,
                 const PackedRows &packed, size_t n_rows, int n_rows_w, int n_cols) {
    const SecondLook &look = *linear.screen->second;
    std::vector<CacheLine> prepared(look.n_lines(n_cols));
    std::vector<float> more(n_rows * n_rows_w), off(more.size());
    std::vector<int32_t> rows(n_rows_w + interleaved_rows);
    const std::vector<float> nothing(interleaved_rows, 0);
    int n = 0;
    for (int first = 0; first < n_rows_w; first += interleaved_rows)
        n += look.in_question(rows.data() + n, nothing.data(), first, 0, 0);
    require(n == n_rows_w, "a product of 0 isn't known to be less than 0");
    for (size_t t = 0; t < n_rows; ++t) {
        look.prepare(prepared.data(), packed.act, int(n_rows), n_cols, int(t));
        const double length =
            linear.screen->lengths(packed.act, int(n_rows), n_cols, int(t)).left;
        float *of = off.data() + t * n_rows_w;
        look.run(more.data() + t * n_rows_w, of, rows.data(), n, divided.weights(), n_cols,
                 prepared.data());
        for (int i = 0; i < n; ++i)
            of[i] += float(length) * divided.known[rows[i] / interleaved_rows * linear.n_known + 1];
    }
    to.more = {more, {n_rows, size_t(n_rows_w)}};
    to.off = {off, {n_rows, size_t(n_rows_w)}};
}

}  // namespace

Result matmul(const std::string &type, Bytes w, int n_rows_w, int n_cols, Floats x,
              const std::string &level, bool precise, Range n_range, Range t_range,
              bool interleaved) {
    const Kernels &kernels = *kernels_for(level);
    const Linear &linear = linear_named(kernels, type, precise);
    require_blocks(linear, w, n_rows_w, n_cols);
    require(x.shape[1] == size_t(n_cols), "x has another number of columns");
    const Packer &packer = *kernels.packer(linear.act);
    const int n_rows = size_of(x.shape[0]);
    require_range(n_range, n_rows_w, linear.row_granule);
    require_range(t_range, n_rows, packer.granule);
    const PackedRows packed(packer, x);
    const void *act = packed.act;
    std::vector<float> y(size_t(n_rows) * n_rows_w, std::nanf(""));
    const auto run = [&](Weights weights, int first, int last) {
        linear.run(y.data(), size_t(n_rows_w), weights, first, last, n_cols, act, n_rows,
                   t_range.first, t_range.second);
    };
    if (!interleaved) {
        run({w.data}, n_range.first, n_range.second);
        return {y, {size_t(n_rows), size_t(n_rows_w)}};
    }
    require(linear.interleave, "rows of this type are not interleaved at this level");
    const int n_whole = n_rows_w / interleaved_rows * interleaved_rows;
    const Divided divided(linear, w.data, n_whole, n_cols);
    const int last = n_range.second / interleaved_rows * interleaved_rows;
    if (n_range.first < last) run(divided.weights(), n_range.first, last);
    if (last < n_range.second) run({w.data}, std::max(n_range.first, last), n_range.second);
    return {y, {size_t(n_rows), size_t(n_rows_w)}};
}

Screened screened(const std::string &type, Bytes w, int n_rows_w, int n_cols, Floats x,
                  const std::string &level) {
    const Kernels &kernels = *kernels_for(level);
    const Linear *found = kernels.screened_linear(type.c_str());
    require(found, "rows of this type don't lie in two parts at this level");
    const Linear &linear = *found;
    require_blocks(linear, w, n_rows_w, n_cols);
    require(x.shape[1] == size_t(n_cols), "x has another number of columns");
    require(n_rows_w % interleaved_rows == 0, "there are no whole sixteens of rows");
    require(linear.divides(n_cols), "rows of this length don't lie in two parts at this level");
    const size_t n_rows = x.shape[0];
    const Divided divided(linear, w.data, n_rows_w, n_cols);
    const PackedRows packed(*kernels.packer(linear.act), x);
    const auto products = [&](auto run) {
        std::vector<float> y(n_rows * n_rows_w);
        run(y.data(), size_t(n_rows_w), divided.weights(), 0, n_rows_w, n_cols, packed.act,
            int(n_rows), 0, int(n_rows));
        return Result{y, {n_rows, size_t(n_rows_w)}};
    };
    const Screen &screen = *linear.screen;
    const bool takes = int(n_rows) <= screen.most_rows;
    const Result none = {{}, {0, size_t(n_rows_w)}};
    std::vector<float> reach, lengths;
    for (size_t i = 0; i < divided.known.size(); i += size_t(linear.n_known))
        reach.push_back(divided.known[i]);
    for (size_t t = 0; t < n_rows; ++t)
        lengths.push_back(float(screen.lengths(packed.act, int(n_rows), n_cols, int(t)).first));
    Screened all = {products(linear.run), takes ? products(screen.run) : none,
                    {reach, {reach.size()}}, {lengths, {n_rows}}, none, none};
    if (takes && screen.second) second_look(all, linear, divided, packed, n_rows, n_rows_w, n_cols);
    return all;
}

double spared_bytes(const std::string &level, const std::string &type) {
    const Linear *linear = kernels_for(level)->screened_linear(type.c_str());
    if (!linear) return 0;
    return double(linear->screen->spared_bytes) * linear->block_size / linear->rest_block;
}

}  // namespace unladen::cpu::calls
