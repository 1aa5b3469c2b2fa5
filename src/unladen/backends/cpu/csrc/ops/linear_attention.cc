// Attention with a matrix of fixed size for each head as its past.
#include <vector>

#include "backends/cpu/csrc/ops/by_sequence.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct LinearAttention {
    Input q, k, v, g, beta;  // g and beta may be missing
    Output y;
    Vector first;            // [n_heads][k_dim] or none
    Slots slots;
    int n_heads, n_k_heads;
    std::vector<float> decay;  // [n_heads] instead of g, or empty
    bool is_tiled, has_delta;
    float scale;

    explicit LinearAttention(Fields &of)
        : q(of.input()), k(of.input()), v(of.input()), y(of.output()),
          first(of.vector_if("first")), slots(of.slots()), n_heads(of.integer("n_heads")),
          n_k_heads(of.integer("n_k_heads")), is_tiled(of.flag("tiled")),
          has_delta(of.flag("delta")), scale(static_cast<float>(of.number("scale"))) {
        if (of.has_attribute("decay")) {
            for (double each : of.numbers("decay")) decay.push_back(static_cast<float>(each));
        } else {
            g = of.input();
        }
        if (has_delta) beta = of.input();
        of.require(n_heads > 0 && n_k_heads > 0 && k.n_cols % n_k_heads == 0 &&
                       v.n_cols % n_heads == 0 && q.n_cols == k.n_cols,
                   "heads don't divide the columns");
        of.require(decay.empty() ? g.n_cols == n_heads || g.n_cols == n_heads * k_dim()
                                 : decay.size() == static_cast<size_t>(n_heads),
                   "there is no decay for each head");
        of.require(first.n == 0 || first.n == n_heads * k_dim(),
                   "weight first has another size than the heads");
    }

    int k_dim() const { return k.n_cols / n_k_heads; }
    int v_dim() const { return v.n_cols / n_heads; }

    void add(Builder &to) const {
        const size_t head = static_cast<size_t>(k_dim()) * v_dim();
        to.add(by_sequence(slots, n_heads, n_heads * head * 0.4, k_dim(),
                           [=, a = *this, &kernels = to.kernels()](const Part &part,
                                                                   float *scratch) {
            LinearAttentionArgs args = a.args_of(part);
            args.state = carried(part, args.head * head, head);
            kernels.linear_attention(args, scratch);
        }));
    }

    LinearAttentionArgs args_of(const Part &part) const {
        LinearAttentionArgs args{};
        args.n_tokens = part.n_tokens;
        args.n_heads = n_heads;
        args.n_k_heads = n_k_heads;
        args.k_dim = k_dim();
        args.v_dim = v_dim();
        args.head = part.index;
        args.k_head = is_tiled ? args.head % n_k_heads : args.head * n_k_heads / n_heads;
        args.q = q.row(part.first_row);
        args.k = k.row(part.first_row);
        args.v = v.row(part.first_row);
        args.y = y.row(part.first_row);
        args.g_per_row = g.n_cols > n_heads;
        if (g.data) args.g = g.row(part.first_row);
        if (beta.data) args.beta = beta.row(part.first_row);
        if (first.n) args.first = first.data + static_cast<size_t>(args.head) * args.k_dim;
        if (!decay.empty()) args.decay = decay[args.head];
        args.scale = scale;
        return args;
    }
};

const Registered<LinearAttention> registered("linear_attention");

}  // namespace
}  // namespace unladen::cpu
