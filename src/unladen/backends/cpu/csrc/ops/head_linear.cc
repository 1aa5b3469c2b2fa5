// A matrix for each head; the columns of a head beyond its matrix stay as they are.
#include <algorithm>
#include <cstring>

#include "backends/cpu/csrc/ops/ops.h"

namespace unladen::cpu {
namespace {

constexpr int tile_rows_wanted = 64;

size_t packed_bytes_of_head(const Packer &packer, int max_rows, int n_cols) {
    return (packed_bytes(packer, max_rows, n_cols) + 63) / 64 * 64;
}

class PackHeads final : public Operation {
public:
    PackHeads(const Kernels &k, const HeadLinearArgs &args, ActFormat format)
        : a_(args), packer_(*k.packer(format)),
          stride_(packed_bytes_of_head(packer_, a_.max_rows, a_.w.n_cols)) {}

    Tiling prepare(const Step &step) override {
        n_rows_ = count(step, a_.rows);
        return {n_rows_ ? a_.n_heads : 0, n_rows_ * a_.n_heads * a_.w.n_cols * 0.2};
    }
    void tile(const Step &step, int head, void *) override {
        const size_t width = a_.width;
        packer_.pack(a_.scratch + head * stride_, {a_.x + head * width, a_.n_heads * width},
                     layout_rows(step, packer_, n_rows_), a_.w.n_cols, 0, n_rows_, 0, a_.w.n_cols);
    }

private:
    HeadLinearArgs a_;
    const Packer &packer_;
    size_t stride_;
    int n_rows_ = 0;
};

class HeadProducts final : public Operation {
public:
    HeadProducts(const Kernels &k, const HeadLinearArgs &args, const Linear &kernel)
        : a_(args), kernel_(kernel), packer_(*k.packer(kernel.act)),
          n_out_(a_.w.n_rows / a_.n_heads), rest_(a_.width - a_.w.n_cols),
          row_(static_cast<size_t>(n_out_ + rest_) * a_.n_heads),
          stride_(packed_bytes_of_head(packer_, a_.max_rows, a_.w.n_cols)),
          tile_rows_(ceil_div(std::min(tile_rows_wanted, n_out_), kernel.row_granule) *
                     kernel.row_granule),
          tiles_per_head_(ceil_div(n_out_, tile_rows_)) {}

    Tiling prepare(const Step &step) override {
        n_rows_ = count(step, a_.rows);
        return {n_rows_ ? a_.n_heads * tiles_per_head_ : 0,
                0.03 * n_rows_ * a_.w.n_rows * a_.w.n_cols};
    }
    void tile(const Step &step, int index, void *) override {
        int head = index / tiles_per_head_, first = index % tiles_per_head_ * tile_rows_;
        int last = std::min(n_out_, first + tile_rows_);
        float *y = a_.y + static_cast<size_t>(head) * (n_out_ + rest_);
        multiply(kernel_, a_.w, n_out_ * head, y, row_, first, last, a_.scratch + head * stride_,
                 layout_rows(step, packer_, n_rows_), 0, n_rows_);
        if (first == 0 && rest_ > 0)
            for (int t = 0; t < n_rows_; t++)
                std::memcpy(y + t * row_ + n_out_,
                            a_.x + (static_cast<size_t>(t) * a_.n_heads + head) * a_.width +
                                a_.w.n_cols,
                            rest_ * sizeof(float));
    }

private:
    HeadLinearArgs a_;
    const Linear &kernel_;
    const Packer &packer_;
    int n_out_, rest_;
    size_t row_, stride_;
    int tile_rows_, tiles_per_head_, n_rows_ = 0;
};

}  // namespace

size_t head_linear_scratch_bytes(const Kernels &k, const std::string &type, int n_heads, int n_cols,
                                 int max_rows, bool precise) {
    const Packer &packer = *k.packer(linear_kernel(k, type, precise).act);
    return n_heads * packed_bytes_of_head(packer, max_rows, n_cols);
}

std::vector<OperationPtr> make_head_linear(const Kernels &k, const HeadLinearArgs &args) {
    const Linear &kernel = linear_kernel(k, args.w.type, args.precise);
    std::vector<OperationPtr> phases;
    phases.push_back(std::make_unique<PackHeads>(k, args, kernel.act));
    phases.push_back(std::make_unique<HeadProducts>(k, args, kernel));
    return phases;
}

}  // namespace unladen::cpu
