// The weights of a norm: a factor and a summand for each column.
#pragma once

#include "backends/cpu/csrc/ops/fields.h"

namespace unladen::cpu {

// Both are optional. A weight that is shorter than a row is repeated.
struct NormWeights {
    Vector scale, shift;

    const float *scale_at(int column) const { return at(scale, column); }
    const float *shift_at(int column) const { return at(shift, column); }
    // Throws unless `group` divides n_cols and the sizes of the weights.
    void check(const Fields &of, int n_cols, int group) const {
        of.require(group > 0 && n_cols % group == 0, "groups of columns don't divide a row");
        of.require(scale.n % group == 0 && shift.n % group == 0,
                   "groups of columns don't divide the weights");
    }

private:
    static const float *at(const Vector &v, int column) {
        return v.n ? v.data + column % v.n : nullptr;
    }
};

}  // namespace unladen::cpu
