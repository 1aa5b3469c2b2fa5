// Selective state spaces: S = exp(dt a) S + dt x B, y = S C + d x.
#include <algorithm>

#include "backends/cpu/csrc/ops/by_sequence.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct SsmScan {
    Input x, dt, b, c;
    Output y;
    Vector a, d;
    Slots slots;
    int n_groups;

    explicit SsmScan(Fields &of)
        : x(of.input()), dt(of.input()), b(of.input()), c(of.input()), y(of.output()),
          a(of.vector("a")), d(of.vector("d")), slots(of.slots()),
          n_groups(of.integer("n_groups")) {
        of.require(dt.n_cols > 0 && n_groups > 0 && x.n_cols % dt.n_cols == 0 &&
                       b.n_cols % n_groups == 0 && c.n_cols == b.n_cols,
                   "heads or groups don't divide the columns");
        of.require(d.n == n_heads() && (a.n == n_heads() || a.n == n_heads() * n_state()),
                   "the weights have other sizes than the heads");
    }

    int n_heads() const { return dt.n_cols; }
    int n_channels() const { return x.n_cols / dt.n_cols; }
    int n_state() const { return b.n_cols / n_groups; }

    void add(Builder &to) const {
        const size_t head = static_cast<size_t>(n_channels()) * n_state();
        const int step = per_part(n_heads(), head * 0.4);
        SsmArgs all{};
        all.a = a.data;
        all.d = d.data;
        all.n_heads = n_heads();
        all.n_channels = n_channels();
        all.n_state = n_state();
        all.n_groups = n_groups;
        all.n_decays = a.n / n_heads();
        to.add(by_sequence(slots, ceil_div(n_heads(), step), n_heads() * head * 0.4, n_state(),
                           [=, s = *this, &k = to.kernels()](const Part &part, float *scratch) {
            SsmArgs args = all;
            args.x = s.x.row(part.first_row);
            args.y = s.y.row(part.first_row);
            args.dt = s.dt.row(part.first_row);
            args.b = s.b.row(part.first_row);
            args.c = s.c.row(part.first_row);
            args.n_tokens = part.n_tokens;
            args.first = part.index * step;
            args.last = std::min(args.n_heads, args.first + step);
            carried(part, args.first * head, (args.last - args.first) * head);
            args.state = part.after;
            k.ssm_scan(args, scratch);
        }));
    }
};

const Registered<SsmScan> registered("ssm_scan");

}  // namespace
}  // namespace unladen::cpu
