// Packing of activations and the products that read them.
#include <algorithm>
#include <stdexcept>

#include "backends/cpu/csrc/ops/ops.h"

namespace unladen::cpu {
namespace {

class PackOperation final : public Operation {
public:
    PackOperation(const Packer &packer, const float *x, int n_cols, Rows rows, uint8_t *packed)
        : packer_(packer), x_(x), n_cols_(n_cols), rows_(rows), packed_(packed) {}

    Tiling prepare(const Step &step) override {
        n_rows_ = count(step, rows_);
        return {ceil_div(n_rows_, packer_.granule), n_rows_ * n_cols_ * 0.2};
    }
    void tile(const Step &step, int index, void *) override {
        int first = index * packer_.granule;
        packer_.pack(packed_, x_, n_cols_, nullptr, layout_rows(step, packer_, n_rows_), n_cols_,
                     first, std::min(n_rows_, first + packer_.granule));
    }

private:
    const Packer &packer_;
    const float *x_;
    int n_cols_;
    Rows rows_;
    uint8_t *packed_;
    int n_rows_ = 0;
};

void add_bias(float *y, size_t stride, const float *bias, int first, int last, int n_rows) {
    if (!bias) return;
    for (int t = 0; t < n_rows; t++)
        for (int n = first; n < last; n++) y[t * stride + n] += bias[n];
}

class LinearOperation final : public Operation {
public:
    LinearOperation(const Kernels &k, LinearArgs args) : k_(k), a_(std::move(args)) {
        for (const Matrix &w : a_.weights)
            kernels_.push_back(&linear_kernel(k, w.type, a_.precise));
        layout_rows_.resize(kernels_.size());
    }

    size_t scratch_bytes() const override {
        return a_.gated ? 2 * sizeof(float) * a_.max_rows * max_tile_rows : 0;
    }

    Tiling prepare(const Step &step) override {
        n_rows_ = count(step, a_.rows);
        for (size_t i = 0; i < kernels_.size(); i++)
            layout_rows_[i] = layout_rows(step, *k_.packer(kernels_[i]->act), n_rows_);
        first_tile_.assign(1, 0);
        tile_rows_.clear();
        double ns = 0;
        size_t n_products = a_.gated ? 1 : a_.weights.size();
        for (size_t i = 0; i < n_products; i++) {
            const Matrix &w = a_.weights[i];
            tile_rows_.push_back(rows_per_tile(w, *kernels_[i]));
            first_tile_.push_back(first_tile_.back() + ceil_div(w.n_rows, tile_rows_[i]));
            ns += cost(w, *kernels_[i]) * (a_.gated ? 2 : 1);
        }
        return {n_rows_ ? first_tile_.back() : 0, ns};
    }

    void tile(const Step &, int index, void *scratch) override {
        size_t i = 0;
        while (index >= first_tile_[i + 1]) i++;
        const Matrix &w = a_.weights[i];
        int first = (index - first_tile_[i]) * tile_rows_[i];
        int last = std::min(w.n_rows, first + tile_rows_[i]);
        if (a_.gated)
            gated_tile(first, last, static_cast<float *>(scratch));
        else
            product(i, a_.y[i], w.n_rows, first, last);
        if (a_.residual) add_residual(first, last, w.n_rows);
    }

private:
    static constexpr int max_tile_rows = 256;

    // Large enough that handing a tile over is nothing beside it, small enough to balance. Few
    // activations wait for weights, which arrive best in long stretches.
    int rows_per_tile(const Matrix &w, const Linear &kernel) const {
        double bytes = static_cast<double>(w.n_cols) / kernel.block_size * kernel.block_bytes;
        int rows = 64;
        if (n_rows_ == 1)
            rows = static_cast<int>(std::min(w.n_rows / 32.0, 262144 / std::max(1.0, bytes)));
        if (n_rows_ > 1 && n_rows_ <= 16) rows = std::max(rows, w.n_rows / 16);
        rows = std::clamp(rows, 16, max_tile_rows);
        return ceil_div(rows, kernel.row_granule) * kernel.row_granule;
    }

    double cost(const Matrix &w, const Linear &kernel) const {
        double weights = static_cast<double>(w.n_rows) * w.n_cols;
        double per_weight = kernel.act == ActFormat::f32 ? 0.06 : 0.03;
        return weights * per_weight * std::max(1.0, n_rows_ * 0.4);
    }

    void product(size_t i, float *y, size_t stride, int first, int last) const {
        const Matrix &w = a_.weights[i];
        multiply(*kernels_[i], w, 0, y, stride, first, last, a_.packed[i], layout_rows_[i],
                 n_rows_);
        add_bias(y, stride, w.bias, first, last, n_rows_);
    }

    void gated_tile(int first, int last, float *scratch) const {
        size_t n = last - first;
        float *gate = scratch, *up = scratch + n * n_rows_;
        // The kernels address rows from 0: shift so that row `first` lands at the scratch's start.
        product(0, gate - first, n, first, last);
        product(1, up - first, n, first, last);
        size_t stride = a_.weights[0].n_rows;
        for (int t = 0; t < n_rows_; t++)
            k_.glu(a_.y[0] + t * stride + first, gate + t * n, up + t * n, static_cast<int>(n),
                   *a_.gated);
    }

    void add_residual(int first, int last, size_t stride) const {
        for (int t = 0; t < n_rows_; t++) {
            size_t at = t * stride + first;
            k_.add(a_.y[0] + at, a_.y[0] + at, a_.residual + at, last - first);
        }
    }

    const Kernels &k_;
    LinearArgs a_;
    std::vector<const Linear *> kernels_;
    std::vector<int> first_tile_, tile_rows_;
    std::vector<int> layout_rows_;
    int n_rows_ = 0;
};

}  // namespace

const Linear &linear_kernel(const Kernels &k, const std::string &type, bool precise) {
    const Linear *kernel = k.linear(type.c_str(), precise);
    if (!kernel) throw std::invalid_argument("no kernel for weights of type " + type);
    return *kernel;
}

void multiply(const Linear &kernel, const Matrix &w, int base, float *y, size_t y_stride,
              int n_first, int n_last, const void *act, int n_rows, int t_last) {
    const size_t row = static_cast<size_t>(w.n_cols) / kernel.block_size * kernel.block_bytes;
    const uint8_t *rows = w.data + row * base;
    int split = n_first;
    if (w.copy) {
        const size_t at = static_cast<size_t>(rows - w.copy->from);
        if (w.copy->n_done > at) {
            const size_t n_there = (w.copy->n_done - at) / row;
            split = static_cast<int>(std::clamp<size_t>(n_there, n_first, n_last));
        }
        if (split > n_first)
            kernel.run(y, y_stride, {w.copy->to + at, true}, n_first, split, w.n_cols, act, n_rows,
                       0, t_last);
    }
    if (split < n_last)
        kernel.run(y, y_stride, {rows}, split, n_last, w.n_cols, act, n_rows, 0, t_last);
}

OperationPtr make_pack(const Kernels &k, ActFormat format, const float *x, int n_cols, Rows rows,
                       uint8_t *packed) {
    return std::make_unique<PackOperation>(*k.packer(format), x, n_cols, rows, packed);
}

OperationPtr make_linear(const Kernels &k, LinearArgs args) {
    return std::make_unique<LinearOperation>(k, std::move(args));
}

}  // namespace unladen::cpu
