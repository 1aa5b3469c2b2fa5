// Runs the scan of a header's string arrays on any bytes.
#include <fuzzer/FuzzedDataProvider.h>

#include "gguf/csrc/scan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    FuzzedDataProvider input(data, size);
    const bool big = input.ConsumeBool();
    const uint64_t n = input.ConsumeBool() ? input.ConsumeIntegral<uint64_t>()
                                           : input.ConsumeIntegralInRange<uint64_t>(0, 64);
    const auto bytes = input.ConsumeRemainingBytes<uint8_t>();
    const uint64_t pos = bytes.size() / 8;
    const auto starts = unladen::scan(bytes.data(), bytes.size(), pos, n, big);
    if (starts.capacity() > bytes.size() / 8 + 2 || starts.empty()) __builtin_trap();
    for (size_t i = 0; i + 1 < starts.size(); ++i)
        if (starts[i + 1] < starts[i] + 8 || static_cast<uint64_t>(starts[i + 1]) > bytes.size())
            __builtin_trap();
    return 0;
}
