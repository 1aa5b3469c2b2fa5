// Float arithmetic that gives the same bits on every machine and in NumPy.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unladen::sample {

constexpr int kWeightBits = 40;  // WEIGHT_BITS of base.py

struct Scan {
    float max;    // -inf when n is 0
    bool is_nan;  // a NaN was seen; max then means nothing
};

Scan scan(const float *x, size_t n);

// The first index of `value`, which must occur.
size_t index_of(float value, const float *x, size_t n);

bool any_above(const float *x, size_t n, float threshold);

// out[i] = weight of x[i], as weights() of base.py defines it; max is finite.
// Returns the sum.
uint64_t weigh(const float *x, size_t n, float max, uint64_t *out);

void divide(float *x, size_t n, float divisor);

float penalize(float logit, float count, float repeat, float frequency, float presence);

}  // namespace unladen::sample
