// Each token's row of the token before it.
#include <cstring>

#include "backends/cpu/csrc/ops/by_sequence.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct TokenShift {
    Input x;
    Output y;
    Slots slots;

    explicit TokenShift(Fields &of) : x(of.input()), y(of.output()), slots(of.slots()) {
        of.require(slots.size == static_cast<size_t>(x.n_cols), "the state is no row of x");
    }

    void add(Builder &to) const {
        to.add(by_sequence(slots, 1, x.n_cols * 0.2, 0, [a = *this](const Part &part, float *) {
            const size_t n = a.x.n_cols;
            const float *rows = a.x.row(part.first_row);
            float *out = a.y.row(part.first_row);
            if (part.before) {
                std::memcpy(out, part.before, n * sizeof(float));
            } else {
                std::memset(out, 0, n * sizeof(float));
            }
            std::memcpy(out + n, rows, (part.n_tokens - 1) * n * sizeof(float));
            std::memcpy(part.after, rows + (part.n_tokens - 1) * n, n * sizeof(float));
        }));
    }
};

const Registered<TokenShift> registered("token_shift");

}  // namespace
}  // namespace unladen::cpu
