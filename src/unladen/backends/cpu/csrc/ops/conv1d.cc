// A convolution over a sequence's tokens, each channel by itself.
#include <algorithm>

#include "backends/cpu/csrc/ops/by_sequence.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct Conv1d {
    Input x;
    Output y;
    Vector w, bias;
    Slots slots;
    Activation act;
    int n_taps;

    explicit Conv1d(Fields &of)
        : x(of.input()), y(of.output()), w(of.vector("w")), bias(of.vector_if("b")),
          slots(of.slots()), act(of.choice<Activation>("act")),
          n_taps(x.n_cols ? w.n / x.n_cols : 0) {
        of.require(w.n == n_taps * x.n_cols && (bias.n == 0 || bias.n == x.n_cols),
                   "the weights have other channels than x");
    }

    static const char *limit() { return "at most 16 taps"; }
    bool fits() const {
        static_assert(max_conv_taps == 16, "limit() says so");
        return n_taps <= max_conv_taps;
    }

    void add(Builder &to) const {
        // Whole cache lines, so that no two threads write to one.
        const int step = (per_part(x.n_cols, n_taps * 0.5) + 15) / 16 * 16;
        const double ns = x.n_cols * n_taps * 0.3;
        to.add(by_sequence(slots, ceil_div(x.n_cols, step), ns, 0,
                           [c = *this, step, &k = to.kernels()](const Part &part, float *) {
            ConvArgs a{};
            a.x = c.x.row(part.first_row);
            a.y = c.y.row(part.first_row);
            a.w = c.w.data;
            a.bias = c.bias.data;
            a.before = part.before;
            a.after = part.after;
            a.n_tokens = part.n_tokens;
            a.n_channels = c.x.n_cols;
            a.n_taps = c.n_taps;
            a.first = part.index * step;
            a.last = std::min(a.n_channels, a.first + step);
            a.act = c.act;
            k.conv1d(a);
        }));
    }
};

const Registered<Conv1d> registered("conv1d");

}  // namespace
}  // namespace unladen::cpu
