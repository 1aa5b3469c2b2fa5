// Float arithmetic that gives the same bits on every machine and in NumPy.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unladen::sample {

constexpr int kWeightBits = 40;  // the same as WEIGHT_BITS in base.py

struct Scan {
    float max;    // -inf when n is 0
    bool is_nan;  // a number is NaN; `max` is then undefined
};

Scan scan(const float *x, size_t n);

// The first index i with x[i] == value. There must be one.
size_t index_of(float value, const float *x, size_t n);

bool any_above(const float *x, size_t n, float threshold);

// Sets out[i] to the weight of x[i], as weights() in base.py defines it, and returns their sum.
// `max`, the largest x[i], must be finite.
uint64_t weigh(const float *x, size_t n, float max, uint64_t *out);

void divide(float *x, size_t n, float divisor);

float penalize(float logit, float count, float repeat, float frequency, float presence);

}  // namespace unladen::sample
