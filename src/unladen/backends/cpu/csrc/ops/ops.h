// The operations of a program: each factory takes fixed addresses and sizes. Names and meanings are
// those of the Python ops in graph/ops/.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/csrc/ops/interleaving.h"
#include "backends/cpu/csrc/ops/routing.h"
#include "backends/cpu/csrc/program.h"

namespace unladen::cpu {

using OperationPtr = std::unique_ptr<Operation>;

// A weight matrix as it lies in memory: n_rows rows of n_cols, whole blocks of `type`.
struct Matrix {
    const uint8_t *data;
    std::string type;
    int n_rows, n_cols;
    const float *bias;  // [n_rows] or nullptr
    const InterleavedCopy *copy = nullptr;
};

// How interleaved rows are multiplied: as their kernel's screen does; and Weights::next.
struct Manner {
    bool screens = false;
    const uint8_t *next = nullptr;
};

// As Linear::run, row 0 being row `base` of w, a multiple of interleaved_rows where w has a copy.
void multiply(const Linear &kernel, const Matrix &w, int base, float *y, size_t y_stride,
              int n_first, int n_last, const void *act, int n_rows, int t_first, int t_last,
              Manner manner = {});

OperationPtr make_embed(const Kernels &k, Matrix table, const int32_t *ids, Rows rows, float *y);
OperationPtr make_select_rows(const float *x, int n_cols, const int32_t *which, float *y);

// What a norm multiplies with and adds, repeated every `size` columns; either may be nullptr.
struct NormWeights {
    const float *scale, *shift;
    int size;

    const float *scale_at(int column) const { return scale ? scale + column % size : nullptr; }
    const float *shift_at(int column) const { return shift ? shift + column % size : nullptr; }
};

// `group` columns are normalized together; it divides the size of the weights.
OperationPtr make_rms_norm(const Kernels &k, const float *x, NormWeights w, float *y, Rows rows,
                           int n_cols, int group, float eps);
OperationPtr make_layer_norm(const Kernels &k, const float *x, NormWeights w, float *y, Rows rows,
                             int n_cols, int group, float eps);
// `back` is taken from the positions.
OperationPtr make_rope_table(std::vector<double> freqs, double magnitude, int back, float *y);
OperationPtr make_rope(const Kernels &k, const float *x, const float *table, float *y, int n_heads,
                       int head_dim, int first, int n_rot, bool neox);
// y[row] = 1 + scale log(1 + (position + offset) / length).
OperationPtr make_position_scale(double scale, int length, int offset, float *y);

// same_b: one row of b for all of a.
OperationPtr make_add(const Kernels &k, const float *a, const float *b, bool same_b, float *y,
                      Rows rows, int n_cols);
// n numbers, each for as many neighbouring columns as there are columns for each; n = 0: none.
struct Factors {
    const float *values;
    int n;
    bool divide;
};
// The factors are read when this is called.
OperationPtr make_scale(const float *x, float s, Factors w, float *y, Rows rows, int n_cols);
OperationPtr make_clamp(const float *x, float limit, float *y, Rows rows, int n_cols);
OperationPtr make_softcap(const Kernels &k, const float *x, float cap, float *y, Rows rows,
                          int n_cols);
// Columns first .. first + count of each `group` of them.
OperationPtr make_columns(const float *x, int group, int first, int count, float *y, Rows rows,
                          int n_cols);
OperationPtr make_activation(const Kernels &k, const float *x, Activation act, float *y, Rows rows,
                             int n_cols);
// act(min(gate, gate_limit)) * (up between -limit and limit, + up_offset); limit 0: none of both.
struct GatedUnit {
    Activation act;
    float limit, up_offset, gate_limit;
};
// Applies limit and offset in place to n numbers of each.
void cut(const GatedUnit &unit, float *gate, float *up, int n);
// n_gates of the gate in a row, each for n_cols / n_gates columns of up.
OperationPtr make_glu(const Kernels &k, const float *gate, int n_gates, const float *up,
                      GatedUnit unit, float *y, Rows rows, int n_cols);

// What each head has of x: so many columns, its own or, where shared, the same as all.
struct HeadPart {
    const float *x;
    int n_cols;
    bool shared;
};
// y = the rows of `parts` side by side, head by head.
OperationPtr make_concat(std::vector<HeadPart> parts, int n_heads, float *y, Rows rows);

constexpr int max_streams = 16;
// See HyperWeights; `spread` is nullptr where there is one output.
struct StreamOptions {
    int n_streams, n_rounds;
    bool mixes;
    double eps, magnitude, out_eps;
};
OperationPtr make_hyper_weights(const float *x, const float *scale, const float *base, float *into,
                                 float *spread, Rows rows, StreamOptions options);
// `xs`: address and streams of `width` columns; see HyperMix.
OperationPtr make_hyper_mix(const Kernels &k, std::vector<std::pair<const float *, int>> xs,
                              const float *w, float *y, Rows rows, int width, int n_out);

// The sum of each head's columns.
OperationPtr make_head_sum(const float *x, float *y, Rows rows, int n_cols, int head_dim);
OperationPtr make_l2_norm(const Kernels &k, const float *x, float *y, Rows rows, int n_cols,
                          int group, float eps);

// The recurrent state of one node: slots of `size` floats.
struct Slots {
    float *data;
    size_t size;
    float *at(int slot) const { return data + slot * size; }
};
OperationPtr make_token_shift(Slots slots, const float *x, float *y);
OperationPtr make_conv1d(const Kernels &k, Slots slots, ConvArgs args);
OperationPtr make_ssm_scan(const Kernels &k, Slots slots, SsmArgs args);
// `decay`: one g per head, or empty.
OperationPtr make_linear_attention(const Kernels &k, Slots slots, LinearAttentionArgs args,
                                   std::vector<float> decay, bool tiled);
OperationPtr make_rwkv_mix(const Kernels &k, Slots slots, RwkvArgs args);

// [n_groups * ratio] tokens make a row of `width`: see PoolTokens.
struct PoolArgs {
    const float *x, *scores;  // [n_tokens][n_groups * width]
    const float *place;       // [ratio][n_groups * width]
    float *y;                 // [n_tokens][width]
    int ratio, n_groups, width;
};
OperationPtr make_pool_tokens(const Kernels &k, Slots slots, PoolArgs args);

OperationPtr make_kv_write(const Kernels &k, KVView kv, const float *key, const float *value);

// Which keys a token at position p sees: those up to p (causal) or all, and of these the ones in
// the window. `sliding`: after p - w; `chunked`: from the multiple of w at or below p; `symmetric`:
// at most w / 2 away.
enum class WindowKind : int32_t { sliding, chunked, symmetric };
struct Visibility {
    bool causal;
    int window;  // w; 0: none
    WindowKind kind;
};

struct AttentionOptions {
    int n_heads;
    Visibility visibility;
    float scale, softcap;        // see Scoring
    std::vector<float> slopes;   // [n_heads] or empty
    const float *sinks;          // [n_heads] or nullptr
};
// What a step's attention is cut into, in memory that a program's operations use in turn.
struct AttentionCut;
std::shared_ptr<AttentionCut> make_attention_cut(int max_tokens);
// The phases of attention, in the order in which they run; others may use `cut` before and after.
std::vector<OperationPtr> make_attention(const Kernels &k, KVView kv, const float *q, float *y,
                                         AttentionOptions options,
                                         std::shared_ptr<AttentionCut> cut);

struct PooledAttentionOptions {
    int n_heads, window, ratio;  // see PooledAttention
    float scale;
    const float *sinks;          // [n_heads] or nullptr
};
OperationPtr make_pooled_attention(const Kernels &k, KVView kv, const float *q, float *y,
                                   PooledAttentionOptions options);

// An RMS norm of whole rows.
struct RowNorm {
    const float *w;  // [n_cols] or nullptr
    float eps;
};
// How activations come into the layout that a kernel reads.
struct Packing {
    const Packer *packer;
    const float *x;               // [rows][n_cols]
    int n_cols;
    std::optional<RowNorm> norm;  // comes first
    uint8_t *packed;
};
OperationPtr make_pack(const Kernels &k, Packing packing, Rows rows);
// Where a product is left in the layout of the one kernel that reads it.
struct PackedOutput {
    const Packer *packer;
    uint8_t *packed;
};
class Screening;
struct LinearArgs {
    std::vector<Matrix> weights;
    std::vector<const uint8_t *> packed;  // one per weight
    std::vector<float *> y;               // one per weight; one alone when gated
    std::optional<Activation> gated;      // y = act(weights[0] x) * (weights[1] x)
    std::optional<PackedOutput> output;   // instead of y, of a gated product
    const float *residual;                // [rows][n_rows of weights[0]] or nullptr
    Rows rows;
    bool precise;
    int max_rows;
    std::shared_ptr<Screening> screening;  // of the one weight, where only the largest of y counts
};
OperationPtr make_linear(const Kernels &k, LinearArgs args);

// The place of the largest of each row, x [rows][n]: see the op. `screening`: what made x, or
// nullptr.
std::vector<OperationPtr> make_argmax(const Kernels &k, const float *x, int n,
                                      std::shared_ptr<Screening> screening, int32_t *y);

struct HeadLinearArgs {
    Matrix w;        // the rows of all heads, one head after another
    int n_heads, width;  // columns of a head of x, of which the first w.n_cols meet the matrix
    const float *x;
    float *y;
    Rows rows;
    bool precise;
    int max_rows;
    uint8_t *scratch;  // head_linear_scratch_bytes(...)
};
size_t head_linear_scratch_bytes(const Kernels &k, const std::string &type, int n_heads, int n_cols,
                                 int max_rows, bool precise);
std::vector<OperationPtr> make_head_linear(const Kernels &k, const HeadLinearArgs &args);

struct MoeArgs {
    Matrix router;                 // [n_experts][n_cols]
    Matrix gate, up, down;         // the rows of the experts held, one after another; gate.n_rows
                                   // is 0 where there is none
    bool merged;                   // an expert's rows of gate and up stand together, gate first
    bool weigh_input, precise;
    int n_experts, first_expert, n_held;
    Routing routing;
    GatedUnit unit;
    const float *down_scale;       // [n_held] or nullptr
    const float *x, *seen;         // what the experts get, and the router
    const float *given;            // [rows][routing.n_used] experts to choose first, or nullptr
    float *y;
    Rows rows;
    int max_rows;
    uint8_t *scratch;              // moe_scratch_bytes(...)
};
size_t moe_scratch_bytes(const Kernels &k, const MoeArgs &args);
// The phases of one mixture, in the order in which they run.
std::vector<OperationPtr> make_moe(const Kernels &k, const MoeArgs &args);

// The kernel of a type; throws std::invalid_argument where there is none.
const Linear &linear_kernel(const Kernels &k, const std::string &type, bool precise);
// What packs the activations that it reads.
const Packer &packer_for(const Kernels &k, const std::string &type, bool precise);

// Room for what any step packs of at most max_rows rows.
inline size_t packed_bytes(const Packer &packer, int max_rows, int n_cols) {
    return packer.bytes(std::max(max_rows, many_rows), n_cols);
}

inline int ceil_div(int a, int b) { return (a + b - 1) / b; }

}  // namespace unladen::cpu
