// What an instruction-set level provides: one table of plain functions, filled once per level.
//
// Every .cc in this folder is compiled once per level with UNLADEN_ISA set to its name and with
// that level's compiler flags. Code in here lives in namespace unladen::cpu::UNLADEN_ISA and uses
// no inline function from the standard library that the linker could merge across levels: a merged
// copy might hold instructions that the machine lacks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unladen::cpu {

enum class Activation : int32_t {
    silu, gelu, gelu_erf, gelu_quick, relu, relu_squared, sigmoid, tanh, softplus, exp, identity
};

enum class KVType : int32_t { f32, f16, q8_0 };

// How activations lie when they meet weights of a type. `f32`: unrounded. `q8_32`, `q8_256`:
// rounded to int8, with one float scale per 32 or 256 and sums of 16, for integer dot products.
// `q8_32_pairs`, `q8_256_pairs`, `q8_256_lanes`: the same, but a single row is in the order of AVX2
// or AVX-512 registers.
enum class ActFormat : int32_t { f32, q8_32, q8_32_pairs, q8_256, q8_256_pairs, q8_256_lanes };

// Prefetch strategy of products, named after the microarchitecture that it suits. Affects speed,
// never results. It starts as this processor's, or as that of its nearest kin.
enum class Reading : int32_t { other, zen3, zen4, zen5, intel };
extern Reading reading;

// A Packer writes rows of float32 as an ActFormat, which the matching Linear kernels read. The
// layout may depend on n_rows (rows for a few, panels for many), so writer and reader pass the same
// n_rows. From many_rows on neither the layout nor the sums of a row depend on it.
constexpr int many_rows = 8;

// How many weight rows are interleaved with one another.
constexpr int interleaved_rows = 16;

// Rows of numbers: row r begins at x + (rows ? rows[r] : r) * stride.
struct Floats {
    const float *x;
    size_t stride;
    const int32_t *rows = nullptr;
};

struct Packer {
    // Bytes for n_rows rows of n_cols; also for any smaller n_rows.
    size_t (*bytes)(int n_rows, int n_cols);
    // Packs numbers [k_first, k_last) of rows [first, last) of n_rows; `from` has them from k_first
    // on. `first` is a multiple of `granule`, k_first of `block`, and so is k_last or it is n_cols.
    void (*pack)(void *dst, Floats from, int n_rows, int n_cols, int first, int last, int k_first,
                 int k_last);
    int granule, block;
    // Whether a row's sums don't depend on n_rows, however few there are.
    bool has_one_order;
};

// Rows of whole blocks, one after another; or interleaved, as Linear::interleave leaves them, where
// divided ones have their rest, and numbers that are known of them, elsewhere.
struct Weights {
    const uint8_t *data;
    bool interleaved = false;
    const uint8_t *rest = nullptr;
    const float *known = nullptr;
    // Rows that the thread reads after these, where they don't follow; or nullptr.
    const uint8_t *next = nullptr;
};

// A line of memory.
struct alignas(64) CacheLine {
    uint8_t bytes[64];
};

// Lengths of an activation row, which errors of products are multiples of: `first` of coarse
// products, `left` of those that are left after a second look.
struct Lengths {
    double first, left;
};

// Reads a piece of the rest of single rows, and adds it to their coarse products.
struct SecondLook {
    // prepare() writes activation row t as run() reads it, n_lines(n_cols) lines.
    size_t (*n_lines)(int n_cols);
    void (*prepare)(CacheLine *to, const void *act, int n_rows, int n_cols, int t);
    // Takes interleaved_rows products y of rows from `first` on, which may be off by `off`. Writes
    // the rows whose product may be `least` or more, returns their number, and leaves anything in
    // the rest of interleaved_rows numbers.
    int (*in_question)(int32_t *rows, const float *y, int first, float off, float least);
    // Writes what is to be added to the products of n of these rows. The sums are then off by at
    // most off[i] plus Lengths::left times the second number that is known of interleaved_rows
    // rows.
    void (*run)(float *more, float *off, const int32_t *rows, int n, Weights w, int n_cols,
                const CacheLine *prepared);
};

// Coarse products of divided rows: see Linear.
struct Screen {
    // Like Linear::run of interleaved rows, without their rest. A sum is off by at most its row's
    // reach times Lengths::first of the activation row. The first number that is known of
    // interleaved_rows rows is their largest reach.
    void (*run)(float *y, size_t y_stride, Weights w, int n_first, int n_last, int n_cols,
                const void *act, int n_rows, int t_first, int t_last);
    Lengths (*lengths)(const void *act, int n_rows, int n_cols, int t);
    // run() takes activations that were written for at most this many rows.
    int most_rows;
    // How many bytes of each rest_block it doesn't read.
    int spared_bytes;
    const SecondLook *second = nullptr;  // where there is one
};

// y[t][n] = sum_k w[n][k] * x[t][k] for weight rows [n_first, n_last) and activation rows [t_first,
// t_last); t_first is a multiple of the format's granule, n_first of `row_granule`. `act` is what
// the Packer made of n_rows rows. y points at [t = 0][n = 0]; its stride is in floats. The order of
// a sum depends on the shapes alone, never on the thread or tile that computes it, nor on whether
// weights are interleaved. With n_rows from many_rows on, which may be more than there are, it
// doesn't depend on t_first and t_last either.
struct Linear {
    ActFormat act;
    int block_size;
    int block_bytes;
    int row_granule;
    void (*run)(float *y, size_t y_stride, Weights w, int n_first, int n_last, int n_cols,
                const void *act, int n_rows, int t_first, int t_last);
    // Copies n_rows rows, a multiple of interleaved_rows, in the order that is read fastest;
    // nullptr: there is none. Rows n to n + interleaved_rows - 1 take the same place as before, and
    // run() then takes multiples of interleaved_rows. Rows that are divided take less room at `to`:
    // their rest goes to `rest`, and n_known numbers of each interleaved_rows rows go to `known`.
    void (*interleave)(uint8_t *to, uint8_t *rest, float *known, const uint8_t *w, int n_rows,
                       int n_cols) = nullptr;
    // Rows of whole rest_blocks are divided: rest_bytes of each are the rest.
    int rest_block = 0, rest_bytes = 0, n_known = 0;
    const Screen *screen = nullptr;

    size_t row_bytes(int n_cols) const {
        return static_cast<size_t>(n_cols / block_size) * block_bytes;
    }
    bool divides(int n_cols) const { return rest_block && n_cols % rest_block == 0; }
    // Bytes of a row's rest.
    size_t row_rest_bytes(int n_cols) const {
        return divides(n_cols) ? static_cast<size_t>(n_cols / rest_block) * rest_bytes : 0;
    }
    // How many numbers are known of n_rows rows, where they are divided.
    size_t n_known_of(size_t n_rows, int n_cols) const {
        return divides(n_cols) ? n_rows / interleaved_rows * n_known : 0;
    }
};

// A block of KV cache holds `block_tokens` tokens of one layer:
// K as [n_kv_heads][block_tokens][k_dim], V as [n_kv_heads][block_tokens][v_dim], each row of k_dim
// or v_dim stored as KVType says (q8_0: blocks of 32 = float16 scale + 32 int8, as in GGUF).
struct KVView {
    uint8_t *k, *v;
    KVType k_type, v_type;
    int32_t n_kv_heads, k_dim, v_dim, block_tokens;
};

// One token of a sequence.
struct AttentionTask {
    const float *q;          // [n_heads][k_dim] of the token
    float *out;              // [n_heads][v_dim] of the token
    const int32_t *blocks;   // the sequence's block table
    int32_t position;
    int32_t first, last;     // the token sees keys [first, last): at least one, but for parts
    // nullptr: `out` is the result. Otherwise it is left out, and here, [n_heads][v_dim + 2], is
    // what these keys add to it: sums of values, weighted by e^(score - top), that top, and the sum
    // of the weights. The sinks count as a key.
    float *part;
};

// What becomes of q k^T before the softmax, in this order.
struct Scoring {
    float scale;
    float softcap;           // c: c tanh(s / c); 0: none
    const float *slopes;     // [n_heads]: s - slope * distance to the key; or nullptr
    const float *sinks;      // [n_heads]: one more score in the sum of the softmax; or nullptr
};

struct AttentionArgs {
    KVView kv;
    int32_t n_heads;
    Scoring scoring;
    // n_tasks tokens of one sequence; blocks of keys that none of them sees are never looked up.
    const AttentionTask *tasks;
    int32_t n_tasks;
    int32_t kv_head;         // all query heads that share this K/V head are computed
    float *scratch;          // attention_scratch_floats(...) floats, this thread's own
    // A row's sums have the same order however many rows there are.
    bool one_order;
};

// Rows of the cache that one token sees: at positions first, first + step ..., or at those listed.
// Keys and values come from the cache's K or its V.
enum class Plane : int32_t { k, v };
struct RowRange {
    Plane keys, values;
    const int32_t *positions;  // [n] or nullptr
    int32_t first, step, n;
};

struct AttentionRowsArgs {
    KVView kv;               // of one head
    const float *q;          // [n_heads][k_dim]
    float *out;              // [n_heads][v_dim]
    const int32_t *blocks;   // the sequence's block table
    const RowRange *ranges;
    int32_t n_ranges, n_heads;
    int32_t k_dim, v_dim;    // how much of a row is key, and value; alike where both are one
    float scale;
    const float *sinks;      // [n_heads] or nullptr
    float *scratch;          // attention_rows_scratch_floats(...) floats, this thread's own
};

// Nodes with recurrent state: the tokens of one sequence, everything from its first row on. `state`
// is what the sequence keeps, changed in place.
constexpr int max_conv_taps = 16;

struct ConvArgs {
    const float *x;        // [n_tokens][n_channels]
    float *y;
    const float *w;        // [n_channels][n_taps]
    const float *bias;     // [n_channels] or nullptr
    const float *before;   // [n_taps - 1][n_channels], the last rows so far; nullptr: zeros
    float *after;          // and with these tokens
    int32_t n_tokens, n_channels, n_taps;
    int32_t first, last;   // the channels to compute
    Activation act;
};

struct SsmArgs {
    const float *x;        // [n_tokens][n_heads][n_channels]
    const float *dt;       // [n_tokens][n_heads]
    const float *b, *c;    // [n_tokens][n_groups][n_state]
    float *y;
    const float *a;        // [n_heads][n_decays], n_decays = n_state or 1
    const float *d;        // [n_heads]
    float *state;          // [n_heads][n_channels][n_state]
    int32_t n_tokens, n_heads, n_channels, n_state, n_groups, n_decays;
    int32_t first, last;   // the heads to compute
};

struct LinearAttentionArgs {
    const float *q, *k;    // [n_tokens][n_k_heads][k_dim]
    const float *v;        // [n_tokens][n_heads][v_dim]
    const float *g;        // [n_tokens][n_heads] or [n_tokens][n_heads][k_dim]; nullptr: `decay`
    const float *beta;     // [n_tokens][n_heads]; nullptr: no delta rule
    const float *first;    // [k_dim] or nullptr
    float *y;
    float *state;          // [k_dim][v_dim]
    int32_t n_tokens, n_heads, n_k_heads, k_dim, v_dim;
    int32_t head, k_head;  // the head to compute
    bool g_per_row;
    float decay, scale;
};

struct RwkvArgs {
    const float *r, *g, *k, *v, *a, *b;  // [n_tokens][n_heads][dim]
    float *y;
    float *state;                        // [dim][dim]
    int32_t n_tokens, n_heads, dim, head;
};

// Rows to quantize, of whole blocks.
struct QuantizeArgs {
    const float *x;           // [n_rows][n_cols]
    const float *importance;  // [n_cols]: how much an error in each column matters, or nullptr
    int n_rows, n_cols;
};

struct Kernels {
    const char *name;
    void (*rms_norm)(float *y, const float *x, const float *w, int n, float eps);
    void (*layer_norm)(float *y, const float *x, const float *w, const float *b, int n, float eps);
    // cs: n_rot/2 pairs (cos, sin). norm: pairs (2i, 2i+1); neox: pairs (i, i + n_rot/2).
    void (*rope)(float *y, const float *x, const float *cs, int n_heads, int head_dim, int n_rot,
                 bool neox);
    void (*activate)(float *y, const float *x, int n, Activation act);       // y = act(x)
    void (*glu)(float *y, const float *gate, const float *up, int n, Activation act);
    void (*add)(float *y, const float *a, const float *b, int n);            // y = a + b
    void (*scale_add)(float *y, const float *x, int n, float s);             // y += s * x
    // The largest of each interleaved_rows of n numbers, NaN where one is among them.
    void (*largest)(float *y, const float *x, int n);
    void (*softcap)(float *y, const float *x, int n, float cap);     // y = cap * tanh(x / cap)
    // Stores one token's k [n_kv_heads][k_dim] and v [n_kv_heads][v_dim] at `slot` of `block`.
    void (*kv_store)(const KVView &kv, int block, int slot, const float *k, const float *v);
    size_t (*attention_scratch_floats)(int n_heads_per_kv, int n_tasks, int k_dim, int v_dim,
                                       int block_tokens);
    void (*attention)(const AttentionArgs &args);
    // One token's result [n_heads][v_dim] from its n_parts parts, which stand one after another.
    void (*attention_merge)(float *out, const float *parts, int n_parts, int n_heads, int v_dim);
    size_t (*attention_rows_scratch_floats)(int n_heads, int k_dim, int v_dim);
    void (*attention_rows)(const AttentionRowsArgs &args);
    void (*conv1d)(const ConvArgs &args);
    // scratch: n_state, k_dim or dim floats of this thread's own.
    void (*ssm_scan)(const SsmArgs &args, float *scratch);
    void (*linear_attention)(const LinearAttentionArgs &args, float *scratch);
    void (*rwkv_mix)(const RwkvArgs &args, float *scratch);
    const Packer *(*packer)(ActFormat format);
    // nullptr: no native kernel for this type. precise: activations stay float32.
    const Linear *(*linear)(const char *type, bool precise);
    // With a screen, and the same sums; nullptr: there is none for this type.
    const Linear *(*screened_linear)(const char *type);
    // Dequantizes n weights (whole blocks) of a row; nullptr: unknown type.
    using Dequantize = void (*)(float *y, const uint8_t *w, int n);
    Dequantize (*dequantize)(const char *type);
    // Writes rows as blocks; false where a number or a block's scale is beyond what the format
    // holds. nullptr: unknown type, or one that can only be read.
    using Quantize = bool (*)(uint8_t *to, const QuantizeArgs &args);
    Quantize (*quantize)(const char *type);
    bool (*finite)(const float *x, size_t n);  // neither NaN nor infinity among them
};

// The levels present in this build; a level's table may be used only where the CPU has it.
const Kernels *kernels_portable();
const Kernels *kernels_avx2();
const Kernels *kernels_avx512();
const Kernels *kernels_vbmi();
const Kernels *kernels_neon();
const Kernels *kernels_dotprod();
const Kernels *kernels_i8mm();

}  // namespace unladen::cpu
