// The gated unit of glu and moe; see class GatedUnit in graph/ops/gated.py.
#pragma once

#include "backends/cpu/csrc/ops/fields.h"

namespace unladen::cpu {

// act(min(gate, gate_limit)) * (clamp(up, -limit, limit) + up_offset); limit 0: nothing is clamped.
struct GatedUnit {
    Activation act;
    float limit, up_offset, gate_limit;

    explicit GatedUnit(Fields &of)
        : act(of.choice<Activation>("act")),
          limit(static_cast<float>(of.number("limit", 0))),
          up_offset(static_cast<float>(of.number("up_offset", 0))),
          gate_limit(static_cast<float>(of.number("gate_limit", 0))) {
        if (gate_limit == 0) gate_limit = limit;
    }

    // Applies limits and offset to n numbers of each, in place.
    void cut(float *gate, float *up, int n) const {
        if (limit > 0) {
            for (int i = 0; i < n; i++) {
                gate[i] = gate[i] > gate_limit ? gate_limit : gate[i];
                up[i] = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
            }
        }
        if (up_offset != 0)
            for (int i = 0; i < n; i++) up[i] += up_offset;
    }
};

}  // namespace unladen::cpu
