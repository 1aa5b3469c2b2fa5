// Nodes with recurrent state.
#include <algorithm>
#include <cstring>

#include "backends/cpu/csrc/ops/by_sequence.h"

namespace unladen::cpu {
namespace {

// Channels or heads of a part, where each costs so much.
int per_part(int count, double ns_each) {
    return std::clamp(static_cast<int>(3000 / ns_each), 1, count);
}

}  // namespace

OperationPtr make_token_shift(Slots slots, const float *x, float *y) {
    size_t n = slots.size;
    return by_sequence(slots, 1, n * 0.2, 0, [=](const Part &part, float *) {
        const float *rows = x + part.first_row * n;
        float *out = y + part.first_row * n;
        if (part.before) {
            std::memcpy(out, part.before, n * sizeof(float));
        } else {
            std::memset(out, 0, n * sizeof(float));
        }
        std::memcpy(out + n, rows, (part.n_tokens - 1) * n * sizeof(float));
        std::memcpy(part.after, rows + (part.n_tokens - 1) * n, n * sizeof(float));
    });
}

OperationPtr make_conv1d(const Kernels &k, Slots slots, ConvArgs args) {
    if (args.n_taps > max_conv_taps) throw std::invalid_argument("the convolution is too long");
    // Whole cache lines, so that no two threads write to one.
    int step = (per_part(args.n_channels, args.n_taps * 0.5) + 15) / 16 * 16;
    double ns = args.n_channels * args.n_taps * 0.3;
    return by_sequence(slots, ceil_div(args.n_channels, step), ns, 0,
                       [=, &k](const Part &part, float *) {
        ConvArgs a = args;
        size_t at = static_cast<size_t>(part.first_row) * a.n_channels;
        a.x += at, a.y += at;
        a.before = part.before, a.after = part.after;
        a.n_tokens = part.n_tokens;
        a.first = part.index * step;
        a.last = std::min(a.n_channels, a.first + step);
        k.conv1d(a);
    });
}

OperationPtr make_ssm_scan(const Kernels &k, Slots slots, SsmArgs args) {
    size_t head = static_cast<size_t>(args.n_channels) * args.n_state;
    int step = per_part(args.n_heads, head * 0.4);
    return by_sequence(slots, ceil_div(args.n_heads, step), args.n_heads * head * 0.4, args.n_state,
                       [=, &k](const Part &part, float *scratch) {
        SsmArgs a = args;
        size_t row = part.first_row, groups = row * a.n_groups * a.n_state;
        a.x += row * a.n_heads * a.n_channels, a.y += row * a.n_heads * a.n_channels;
        a.dt += row * a.n_heads, a.b += groups, a.c += groups;
        a.n_tokens = part.n_tokens;
        a.first = part.index * step;
        a.last = std::min(a.n_heads, a.first + step);
        carried(part, a.first * head, (a.last - a.first) * head);
        a.state = part.after;
        k.ssm_scan(a, scratch);
    });
}

OperationPtr make_linear_attention(const Kernels &k, Slots slots, LinearAttentionArgs args,
                                   std::vector<float> decay, bool tiled) {
    size_t head = static_cast<size_t>(args.k_dim) * args.v_dim;
    return by_sequence(slots, args.n_heads, args.n_heads * head * 0.4, args.k_dim,
                       [=, &k, decay = std::move(decay)](const Part &part, float *scratch) {
        LinearAttentionArgs a = args;
        size_t row = part.first_row, keys = row * a.n_k_heads * a.k_dim;
        a.head = part.index;
        a.k_head = tiled ? a.head % a.n_k_heads : a.head * a.n_k_heads / a.n_heads;
        a.q += keys, a.k += keys;
        a.v += row * a.n_heads * a.v_dim, a.y += row * a.n_heads * a.v_dim;
        if (a.g) a.g += row * a.n_heads * (a.g_per_row ? a.k_dim : 1);
        if (a.beta) a.beta += row * a.n_heads;
        if (a.first) a.first += static_cast<size_t>(a.head) * a.k_dim;
        if (!decay.empty()) a.decay = decay[a.head];
        a.n_tokens = part.n_tokens;
        a.state = carried(part, a.head * head, head);
        k.linear_attention(a, scratch);
    });
}

OperationPtr make_rwkv_mix(const Kernels &k, Slots slots, RwkvArgs args) {
    size_t head = static_cast<size_t>(args.dim) * args.dim;
    return by_sequence(slots, args.n_heads, args.n_heads * head * 0.5, args.dim,
                       [=, &k](const Part &part, float *scratch) {
        RwkvArgs a = args;
        size_t at = static_cast<size_t>(part.first_row) * a.n_heads * a.dim;
        a.r += at, a.g += at, a.k += at, a.v += at, a.a += at, a.b += at, a.y += at;
        a.head = part.index;
        a.n_tokens = part.n_tokens;
        a.state = carried(part, a.head * head, head);
        k.rwkv_mix(a, scratch);
    });
}

}  // namespace unladen::cpu
