// Time mixing of RWKV-7: S = diag(exp(g)) S + b (x) (a S) + k (x) v, y = r S.
#include "backends/cpu/csrc/ops/by_sequence.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct RwkvMix {
    Input r, g, k, v, a, b;
    Output y;
    Slots slots;
    int n_heads;

    explicit RwkvMix(Fields &of)
        : r(of.input()), g(of.input()), k(of.input()), v(of.input()), a(of.input()),
          b(of.input()), y(of.output()), slots(of.slots()), n_heads(of.integer("n_heads")) {
        of.require(n_heads > 0 && r.n_cols % n_heads == 0, "heads don't divide the columns");
        for (const Input &x : {g, k, v, a, b})
            of.require(x.n_cols == r.n_cols, "inputs differ in columns");
    }

    void add(Builder &to) const {
        const int dim = r.n_cols / n_heads;
        const size_t head = static_cast<size_t>(dim) * dim;
        to.add(by_sequence(slots, n_heads, n_heads * head * 0.5, dim,
                           [=, m = *this, &kernels = to.kernels()](const Part &part,
                                                                   float *scratch) {
            RwkvArgs args{};
            args.r = m.r.row(part.first_row);
            args.g = m.g.row(part.first_row);
            args.k = m.k.row(part.first_row);
            args.v = m.v.row(part.first_row);
            args.a = m.a.row(part.first_row);
            args.b = m.b.row(part.first_row);
            args.y = m.y.row(part.first_row);
            args.n_tokens = part.n_tokens;
            args.n_heads = m.n_heads;
            args.dim = dim;
            args.head = part.index;
            args.state = carried(part, args.head * head, head);
            kernels.rwkv_mix(args, scratch);
        }));
    }
};

const Registered<RwkvMix> registered("rwkv_mix");

}  // namespace
}  // namespace unladen::cpu
