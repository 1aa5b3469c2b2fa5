// Runs products and dequantization on any bytes, in unusual shapes, at every level that the machine
// has. Buffers are exactly as long as needed, so the sanitizer finds a byte read or written too far.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdlib>
#include <memory>

#include "backends/cpu/csrc/cpu.h"

using namespace unladen::cpu;

namespace {

constexpr const char *kTypes[] = {
    "F32", "F16", "BF16", "F64", "I8", "I16", "I32", "Q1_0", "Q2_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
    "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S",
    "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4"};

struct Free {
    void operator()(void *p) const { std::free(p); }
};
template <class T>
using Memory = std::unique_ptr<T[], Free>;

// A buffer of exactly n items, aligned to a cache line like real buffers.
template <class T>
Memory<T> memory(size_t n) {
    void *p = nullptr;
    if (posix_memalign(&p, 64, n * sizeof(T) + (n == 0))) std::abort();
    return Memory<T>(static_cast<T *>(p));
}

void fill(FuzzedDataProvider &input, uint8_t *p, size_t n) {
    const auto pattern = input.ConsumeBytes<uint8_t>(input.ConsumeIntegralInRange(1, 600));
    for (size_t i = 0; i < n; ++i) p[i] = pattern.empty() ? 0 : pattern[i % pattern.size()];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    FuzzedDataProvider input(data, size);
    static const auto names = levels();
    const Kernels &kernels = *kernels_for(names[input.ConsumeIntegralInRange<size_t>(
        0, names.size() - 1)]);
    const char *type = input.PickValueInArray(kTypes);
    const Linear *linear = kernels.linear(type, input.ConsumeBool());
    if (!linear) return 0;
    const int n_cols = linear->block_size * input.ConsumeIntegralInRange(1, 700 / linear->block_size
                                                                         + 2);
    const int n_rows_w = input.ConsumeIntegralInRange(1, 70);
    const int n_rows = input.ConsumeIntegralInRange(1, 40);
    const size_t n_bytes = size_t(n_rows_w) * (n_cols / linear->block_size) * linear->block_bytes;
    auto w = memory<uint8_t>(n_bytes);
    fill(input, w.get(), n_bytes);
    if (auto dequantize = kernels.dequantize(type)) {
        auto y = memory<float>(n_cols);
        dequantize(y.get(), w.get(), n_cols);
    }
    const size_t n_x = size_t(n_rows) * n_cols;
    auto x = memory<float>(n_x);
    for (size_t i = 0; i < n_x; ++i) x[i] = float(int(i * 2654435761u >> 20) - 2048) / 512;
    if (input.ConsumeBool()) fill(input, reinterpret_cast<uint8_t *>(x.get()), 4 * n_x);
    const Packer &packer = *kernels.packer(linear->act);
    auto act = memory<uint8_t>(packer.bytes(n_rows, n_cols));
    packer.pack(act.get(), {x.get(), size_t(n_cols)}, n_rows, n_cols, 0, n_rows, 0, n_cols);
    const auto range = [&](int n, int granule) {
        const int first = input.ConsumeIntegralInRange(0, (n - 1) / granule) * granule;
        return std::pair(first, input.ConsumeIntegralInRange(first, n));
    };
    const auto [n_first, n_last] = range(n_rows_w, linear->row_granule);
    const auto [t_first, t_last] = range(n_rows, packer.granule);
    auto y = memory<float>(size_t(n_rows) * n_rows_w);
    linear->run(y.get(), size_t(n_rows_w), {w.get()}, n_first, n_last, n_cols, act.get(), n_rows,
                t_first, t_last);
    if (linear->interleave) {
        const int n_whole = n_rows_w / interleaved_rows * interleaved_rows;
        auto copy = memory<uint8_t>(n_bytes / n_rows_w * n_whole);
        linear->interleave(copy.get(), w.get(), n_whole, n_cols);
        const int last = n_last / interleaved_rows * interleaved_rows;
        if (n_first < last) {
            linear->run(y.get(), size_t(n_rows_w), {copy.get(), true}, n_first, last, n_cols,
                        act.get(), n_rows, t_first, t_last);
        }
    }
    return 0;
}
