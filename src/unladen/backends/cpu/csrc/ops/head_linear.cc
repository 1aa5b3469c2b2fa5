// A matrix for each head; the columns of a head after those for its matrix are copied.
#include <algorithm>
#include <cstring>
#include <memory>

#include "backends/cpu/csrc/ops/operations.h"
#include "backends/cpu/csrc/ops/products.h"

namespace unladen::cpu {
namespace {

// How many rows of a matrix a tile multiplies, before rounding up to the kernel's granule.
constexpr int tile_rows_wanted = 64;

size_t packed_bytes_of_head(const Packer &packer, int max_rows, int n_cols) {
    return whole_lines(packed_bytes(packer, max_rows, n_cols));
}

struct HeadLinear {
    Input x;
    Output y;
    Matrix w;            // the rows of all heads, one head after another
    int n_heads, width;  // width: columns of a head of x; the matrix takes the first w.n_cols
    uint8_t *scratch;

    explicit HeadLinear(Fields &of)
        : x(of.input()), y(of.output()), w(of.matrix("w")), n_heads(w.n_stacked),
          width(x.n_cols / n_heads), scratch(of.scratch()) {
        of.require(x.n_cols % n_heads == 0 && width >= w.n_cols,
                   "the heads of x are narrower than their matrices");
        of.require(y.n_cols == n_heads * (w.n_rows / n_heads + width - w.n_cols),
                   "y has other columns than the heads' matrices have rows");
    }

    // Bytes for the rounded activations of all heads.
    size_t scratch_bytes(const Sizing &sizing) const {
        const Packer &packer = packer_for(sizing.kernels, w.type, sizing.precise);
        return n_heads * packed_bytes_of_head(packer, sizing.max_rows, w.n_cols);
    }

    void add(Builder &to) const;
};

class PackHeads final : public Operation {
public:
    PackHeads(const Sizing &sizing, const HeadLinear &node, const Packer &packer)
        : a_(node), packer_(packer),
          stride_(packed_bytes_of_head(packer_, sizing.max_rows, a_.w.n_cols)) {}

    Tiling prepare(const Step &step) override {
        n_rows_ = count(step, a_.x.rows);
        return {n_rows_ ? a_.n_heads : 0, n_rows_ * a_.n_heads * a_.w.n_cols * 0.2};
    }
    void tile(const Step &step, int head, void *) override {
        const size_t width = a_.width;
        packer_.pack(a_.scratch + head * stride_, {a_.x.data + head * width, a_.n_heads * width},
                     layout_rows(step, packer_, n_rows_), a_.w.n_cols, 0, n_rows_, 0, a_.w.n_cols);
    }

private:
    HeadLinear a_;
    const Packer &packer_;
    size_t stride_;
    int n_rows_ = 0;
};

class HeadProducts final : public Operation {
public:
    HeadProducts(const Sizing &sizing, const HeadLinear &node, const Linear &kernel)
        : a_(node), kernel_(kernel), packer_(*sizing.kernels.packer(kernel.act)),
          n_out_(a_.w.n_rows / a_.n_heads), rest_(a_.width - a_.w.n_cols),
          row_(static_cast<size_t>(n_out_ + rest_) * a_.n_heads),
          stride_(packed_bytes_of_head(packer_, sizing.max_rows, a_.w.n_cols)),
          tile_rows_(ceil_div(std::min(tile_rows_wanted, n_out_), kernel.row_granule) *
                     kernel.row_granule),
          tiles_per_head_(ceil_div(n_out_, tile_rows_)) {}

    Tiling prepare(const Step &step) override {
        n_rows_ = count(step, a_.x.rows);
        return {n_rows_ ? a_.n_heads * tiles_per_head_ : 0,
                0.03 * n_rows_ * a_.w.n_rows * a_.w.n_cols};
    }
    void tile(const Step &step, int index, void *) override {
        int head = index / tiles_per_head_, first = index % tiles_per_head_ * tile_rows_;
        int last = std::min(n_out_, first + tile_rows_);
        float *y = a_.y.data + static_cast<size_t>(head) * (n_out_ + rest_);
        multiply(kernel_, a_.w, n_out_ * head, y, row_, first, last, a_.scratch + head * stride_,
                 layout_rows(step, packer_, n_rows_), 0, n_rows_);
        if (first == 0 && rest_ > 0)
            for (int t = 0; t < n_rows_; t++)
                std::memcpy(y + t * row_ + n_out_,
                            a_.x.row(t) + static_cast<size_t>(head) * a_.width + a_.w.n_cols,
                            rest_ * sizeof(float));
    }

private:
    HeadLinear a_;
    const Linear &kernel_;
    const Packer &packer_;
    int n_out_, rest_;
    size_t row_, stride_;
    int tile_rows_, tiles_per_head_, n_rows_ = 0;
};

void HeadLinear::add(Builder &to) const {
    HeadLinear node = *this;
    node.w = to.with_copy(w, w.n_rows / n_heads);
    const Linear &kernel = linear_kernel(to.kernels(), w.type, to.sizing().precise);
    const Packer &packer = *to.kernels().packer(kernel.act);
    to.add(std::make_unique<PackHeads>(to.sizing(), node, packer));
    to.add(std::make_unique<HeadProducts>(to.sizing(), node, kernel));
}

const Registered<HeadLinear> registered("head_linear");

}  // namespace
}  // namespace unladen::cpu
