// Runs chains of the sampler's steps, with any parameters that Python's checks accept, on any
// logits.
#include <fuzzer/FuzzedDataProvider.h>

#include <stdexcept>

#include "sample/csrc/chain.h"

using namespace unladen::sample;

namespace {

constexpr double kNumbers[] = {0, 1e-30, 1e-6, 0.1, 0.5, 0.95, 1, 1.5, 2, 5, 40, 1e6, 1e30};

std::vector<int32_t> ids(FuzzedDataProvider &input, int32_t n) {
    std::vector<int32_t> out;
    for (int left = input.ConsumeIntegralInRange(0, 40); left > 0; --left)
        out.push_back(input.ConsumeIntegralInRange<int32_t>(0, n));
    return out;
}

// Numbers from 0 on, then, for the steps that list tokens, groups of them with their size before.
Parameters parameters(FuzzedDataProvider &input) {
    Parameters out;
    for (int left = input.ConsumeIntegralInRange(0, 8); left > 0; --left)
        out.push_back(input.PickValueInArray(kNumbers));
    for (int left = input.ConsumeIntegralInRange(0, 3); left > 0; --left) {
        const auto breaker = ids(input, 9);
        out.push_back(static_cast<double>(breaker.size()));
        out.insert(out.end(), breaker.begin(), breaker.end());
    }
    return out;
}

std::vector<float> logits(FuzzedDataProvider &input, size_t n) {
    std::vector<float> out;
    for (size_t i = 0; i < n; ++i) {
        float value = input.ConsumeIntegral<int8_t>() / 4.0f;
        if (value == 30.0f) value = -std::numeric_limits<float>::infinity();
        if (value == 31.0f) value = 3e38f;
        if (value == 31.5f) value = std::numeric_limits<float>::quiet_NaN();
        out.push_back(value);
    }
    return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    FuzzedDataProvider input(data, size);
    std::vector<std::string> opcodes;
    for (const auto &[name, factory] : factories()) opcodes.push_back(name);
    std::vector<std::pair<std::string, Parameters>> steps;
    for (int left = input.ConsumeIntegralInRange(1, 6); left > 0; --left) {
        const size_t i = input.ConsumeIntegralInRange<size_t>(0, opcodes.size() - 1);
        steps.emplace_back(opcodes[i], parameters(input));
    }
    State state(input.ConsumeIntegral<uint64_t>());
    const size_t n = input.ConsumeIntegralInRange<size_t>(1, 300);
    for (const int32_t id : ids(input, static_cast<int32_t>(n))) state.accept(id);
    try {
        const Chain chain(steps);
        for (int i = 0; i < 3; ++i) {
            const auto row = logits(input, n);
            const int32_t token = chain.pick(row.data(), n, state);
            if (token < 0 || static_cast<size_t>(token) >= n) __builtin_trap();
            state.accept(token);
            logprobs(row.data(), n, token, 5);
        }
    } catch (const BadLogits &) {
        // The expected error for NaN, or where no token is left.
    } catch (const std::out_of_range &) {
        // The expected error for too few parameters.
    }
    return 0;
}
