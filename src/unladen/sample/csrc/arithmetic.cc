#include "sample/csrc/arithmetic.h"

// Multiplications and additions must not be fused: NumPy doesn't, and some machines can't. The
// standard headers come before the pragma, since functions with different options aren't inlined.
#include <bit>
#include <limits>
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

// Functions compiled for several instruction sets. The loader chooses the version for the
// processor.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define UNLADEN_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define UNLADEN_CLONES
#endif

namespace unladen::sample {
namespace {
constexpr size_t kLanes = 32;  // independent maxima, so that the loop vectorizes without fast-math
constexpr float kInf = std::numeric_limits<float>::infinity();
}  // namespace

UNLADEN_CLONES Scan scan(const float *x, size_t n) {
    float max[kLanes];
    int32_t ordered[kLanes];
    for (size_t j = 0; j < kLanes; ++j) max[j] = -kInf, ordered[j] = -1;
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
        for (size_t j = 0; j < kLanes; ++j) {
            max[j] = x[i + j] > max[j] ? x[i + j] : max[j];
            ordered[j] &= x[i + j] == x[i + j] ? -1 : 0;
        }
    for (size_t j = 0; i < n; ++i, ++j) {
        max[j] = x[i] > max[j] ? x[i] : max[j];
        ordered[j] &= x[i] == x[i] ? -1 : 0;
    }
    Scan result{-kInf, false};
    for (size_t j = 0; j < kLanes; ++j) {
        if (max[j] > result.max) result.max = max[j];
        if (!ordered[j]) result.is_nan = true;
    }
    return result;
}

UNLADEN_CLONES size_t index_of(float value, const float *x, size_t n) {
    constexpr size_t kBlock = 256;
    size_t i = 0;
    for (; i + kBlock <= n; i += kBlock) {
        int32_t found = 0;
        for (size_t j = 0; j < kBlock; ++j) found |= x[i + j] == value ? -1 : 0;
        if (found) break;
    }
    while (i < n && x[i] != value) ++i;
    return i;
}

UNLADEN_CLONES bool any_above(const float *x, size_t n, float threshold) {
    int32_t found = 0;
    for (size_t i = 0; i < n; ++i) found |= x[i] > threshold ? -1 : 0;
    return found != 0;
}

UNLADEN_CLONES uint64_t weigh(const float *x, size_t n, float max, uint64_t *out) {
    constexpr float kRound = 12582912.0f;            // 1.5 * 2**23: adding it rounds to an integer
    constexpr double kRoundWide = 4503599627370496;  // 2**52, likewise
    constexpr size_t kBlock = 256;
    uint64_t sum = 0;
    for (size_t start = 0; start < n; start += kBlock) {
        const size_t size = n - start < kBlock ? n - start : kBlock;
        float d[kBlock];  // in a separate loop, since the clamp would keep the next loop scalar
        for (size_t i = 0; i < size; ++i) {
            float below = x[start + i] - max;
            d[i] = below > -32.0f ? below : -32.0f;
        }
        for (size_t i = 0; i < size; ++i) {
            float shifted = d[i] * 1.44269504f + kRound;
            float e = shifted - kRound;
            float r = (d[i] - e * 0.693359375f) - e * -2.12194440e-4f;
            float y = 1.0f / 5040;
            y = y * r + 1.0f / 720;
            y = y * r + 1.0f / 120;
            y = y * r + 1.0f / 24;
            y = y * r + 1.0f / 6;
            y = y * r + 0.5f;
            y = y * r + 1.0f;
            y = y * r + 1.0f;
            // The low bits of `shifted` are e; the shift drops what kRound put above them.
            float scale = std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) + 127) << 23);
            double weight = double(y * scale) * double(uint64_t{1} << kWeightBits) + kRoundWide;
            out[start + i] = std::bit_cast<uint64_t>(weight) - std::bit_cast<uint64_t>(kRoundWide);
            sum += out[start + i];
        }
    }
    return sum;
}

UNLADEN_CLONES void divide(float *x, size_t n, float divisor) {
    for (size_t i = 0; i < n; ++i) x[i] /= divisor;
}

float penalize(float logit, float count, float repeat, float frequency, float presence) {
    logit = logit > 0 ? logit / repeat : logit * repeat;
    return logit - (count * frequency + presence);
}

}  // namespace unladen::sample
