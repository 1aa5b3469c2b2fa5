// The functions of an instruction-set level: one table of plain functions, filled once per level.
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

// The layout of activations for products with weights of a type. `f32`: float32. `q8_32`, `q8_256`:
// rounded to int8, with one float scale per 32 or 256 and sums of 16, for integer dot products.
// `q8_32_pairs`, `q8_256_pairs`, `q8_256_lanes`: the same, but a single row is in the order of AVX2
// or AVX-512 registers.
enum class ActFormat : int32_t { f32, q8_32, q8_32_pairs, q8_256, q8_256_pairs, q8_256_lanes };

// Prefetch strategy of products, named after the microarchitecture that it suits. Affects speed,
// never results. At start it is this processor's, or that of the most similar one in the list.
enum class Reading : int32_t { other, zen3, zen4, zen5, intel };
extern Reading reading;

// A Packer writes rows of float32 as an ActFormat, which the matching Linear kernels read. The
// layout may depend on n_rows (rows for a few, panels for many), so writer and reader pass the same
// n_rows. From many_rows on neither the layout nor the sums of a row depend on it.
constexpr int many_rows = 8;

// How many weight rows are interleaved.
constexpr int interleaved_rows = 16;

// Rows of numbers: row r begins at x + (rows ? rows[r] : r) * stride.
struct Floats {
    const float *x;
    size_t stride;
    const int32_t *rows = nullptr;
};

struct Packer {
    // Bytes that suffice for up to n_rows rows of n_cols.
    size_t (*bytes)(int n_rows, int n_cols);
    // Rounds numbers [k_first, k_last) of rows [first, last) of n_rows; `from` has them from
    // k_first on. `first` is a multiple of `granule`. k_first is a multiple of `block`, and so is
    // k_last unless it is n_cols.
    void (*pack)(void *dst, Floats from, int n_rows, int n_cols, int first, int last, int k_first,
                 int k_last);
    int granule, block;
    // Whether a row's sums don't depend on n_rows, also below many_rows.
    bool has_one_order;
};

// Rows of whole blocks, one after another; or interleaved by Linear::interleave. Divided rows have
// their rest and their known numbers elsewhere.
struct Weights {
    const uint8_t *data;
    bool interleaved = false;
    const uint8_t *rest = nullptr;
    const float *known = nullptr;
    // Rows that the thread reads after these, if these don't follow in memory; or nullptr.
    const uint8_t *next = nullptr;
};

// A line of memory.
struct alignas(64) CacheLine {
    uint8_t bytes[64];
};

// Lengths of an activation row, of which error bounds are multiples: `first` for the errors of
// coarse products, `left` for the errors that remain after a second look.
struct Lengths {
    double first, left;
};

// Reads a piece of the rest of single rows and completes their coarse products with it.
struct SecondLook {
    // prepare() writes activation row t as run() reads it, n_lines(n_cols) lines.
    size_t (*n_lines)(int n_cols);
    void (*prepare)(CacheLine *to, const void *act, int n_rows, int n_cols, int t);
    // Takes interleaved_rows products y of the rows from `first` on, which may be off by `off`.
    // Writes the rows whose product may be `least` or more and returns their number. The numbers
    // after them, up to interleaved_rows, are undefined.
    int (*in_question)(int32_t *rows, const float *y, int first, float off, float least);
    // Writes to `more` the numbers to add to the products of n of these rows. The error of a sum is
    // then at most off[i] plus Lengths::left times the second known number of its interleaved_rows
    // rows.
    void (*run)(float *more, float *off, const int32_t *rows, int n, Weights w, int n_cols,
                const CacheLine *prepared);
};

// Coarse products of divided rows: see Linear.
struct Screen {
    // As Linear::run for interleaved rows, without their rest. The error of a sum is at most its
    // row's reach times Lengths::first of the activation row. The first known number of
    // interleaved_rows rows is their largest reach.
    void (*run)(float *y, size_t y_stride, Weights w, int n_first, int n_last, int n_cols,
                const void *act, int n_rows, int t_first, int t_last);
    Lengths (*lengths)(const void *act, int n_rows, int n_cols, int t);
    // run() takes activations of at most this many rows.
    int most_rows;
    // How many bytes of each rest_block run() doesn't read.
    int spared_bytes;
    const SecondLook *second = nullptr;  // nullptr: there is no second look
};

// y[t][n] = sum_k w[n][k] * x[t][k] for weight rows [n_first, n_last) and activation rows [t_first,
// t_last); t_first is a multiple of the format's granule, n_first of `row_granule`. `act` are
// n_rows rows that the Packer has rounded. y points at [t = 0][n = 0]; its stride is in floats. The
// order of a sum depends on the shapes alone, not on the thread or tile that computes it, and not
// on whether weights are interleaved. If n_rows is at least many_rows (it may be more than there
// are rows), the order doesn't depend on t_first and t_last either.
struct Linear {
    ActFormat act;
    int block_size;
    int block_bytes;
    int row_granule;
    void (*run)(float *y, size_t y_stride, Weights w, int n_first, int n_last, int n_cols,
                const void *act, int n_rows, int t_first, int t_last);
    // Copies n_rows rows, a multiple of interleaved_rows, in the order that is read fastest;
    // nullptr: there is no such order. Rows n to n + interleaved_rows - 1 take as many bytes as
    // before, and run() then takes multiples of interleaved_rows. Divided rows take fewer bytes at
    // `to`: their rest goes to `rest`, and n_known numbers for each interleaved_rows rows go to
    // `known`.
    void (*interleave)(uint8_t *to, uint8_t *rest, float *known, const uint8_t *w, int n_rows,
                       int n_cols) = nullptr;
    // Rows of whole rest_blocks are divided; rest_bytes of each rest_block are the rest.
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
    // How many known numbers belong to n_rows divided rows.
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
    // nullptr: the result goes to `out`. Otherwise the share of these keys goes here,
    // [n_heads][v_dim + 2]: sums of values weighted by e^(score - top), then top, then the sum of
    // the weights. The sinks count as a key.
    float *part;
};

// The changes to q k^T before the softmax, in this order.
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
    // n_tasks tokens of one sequence. Blocks of keys that no token sees are never looked up.
    const AttentionTask *tasks;
    int32_t n_tasks;
    int32_t kv_head;         // all query heads that share this K/V head are computed
    float *scratch;          // attention_scratch_floats(...) floats, this thread's own
    // Whether a row's sums must have the same order for any number of rows.
    bool one_order;
};

// Rows of the cache that one token sees: at positions first, first + step ..., or at listed ones.
// They are rows of the cache's K or of its V.
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
    int32_t k_dim, v_dim;    // numbers of a row that are its key, and its value
    float scale;
    const float *sinks;      // [n_heads] or nullptr
    float *scratch;          // attention_rows_scratch_floats(...) floats, this thread's own
};

// Nodes with recurrent state: the tokens of one sequence, with all arrays from its first row on.
// `state` is the sequence's state, which is changed in place.
constexpr int max_conv_taps = 16;

struct ConvArgs {
    const float *x;        // [n_tokens][n_channels]
    float *y;
    const float *w;        // [n_channels][n_taps]
    const float *bias;     // [n_channels] or nullptr
    const float *before;   // [n_taps - 1][n_channels], the last rows before; nullptr: zeros
    float *after;          // the last rows after these tokens
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
    // The largest of each interleaved_rows of n numbers; NaN if one of them is NaN.
    void (*largest)(float *y, const float *x, int n);
    void (*softcap)(float *y, const float *x, int n, float cap);     // y = cap * tanh(x / cap)
    // Stores one token's k [n_kv_heads][k_dim] and v [n_kv_heads][v_dim] at `slot` of `block`.
    void (*kv_store)(const KVView &kv, int block, int slot, const float *k, const float *v);
    size_t (*attention_scratch_floats)(int n_heads_per_kv, int n_tasks, int k_dim, int v_dim,
                                       int block_tokens);
    void (*attention)(const AttentionArgs &args);
    // One token's result [n_heads][v_dim] from its n_parts shares, which follow one another.
    void (*attention_merge)(float *out, const float *parts, int n_parts, int n_heads, int v_dim);
    size_t (*attention_rows_scratch_floats)(int n_heads, int k_dim, int v_dim);
    void (*attention_rows)(const AttentionRowsArgs &args);
    void (*conv1d)(const ConvArgs &args);
    // scratch: n_state, k_dim or dim floats of this thread's own.
    void (*ssm_scan)(const SsmArgs &args, float *scratch);
    void (*linear_attention)(const LinearAttentionArgs &args, float *scratch);
    void (*rwkv_mix)(const RwkvArgs &args, float *scratch);
    const Packer *(*packer)(ActFormat format);
    // Returns nullptr if there is no kernel for this type. precise: activations stay float32.
    const Linear *(*linear)(const char *type, bool precise);
    // A kernel with a screen and the same sums; nullptr if there is none for this type.
    const Linear *(*screened_linear)(const char *type);
    // A function that dequantizes n weights (whole blocks) of a row; nullptr for an unknown type.
    using Dequantize = void (*)(float *y, const uint8_t *w, int n);
    Dequantize (*dequantize)(const char *type);
    // A function that writes rows as blocks and returns false if a number or a block's scale is too
    // large for the format; nullptr for an unknown type and for one that can only be read.
    using Quantize = bool (*)(uint8_t *to, const QuantizeArgs &args);
    Quantize (*quantize)(const char *type);
    bool (*finite)(const float *x, size_t n);  // whether all n numbers are finite
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
