// Rounds activations for products.
#include <algorithm>

#include "backends/cpu/csrc/ops/products.h"

namespace unladen::cpu {
namespace {

class PackOperation final : public Operation {
public:
    PackOperation(const Kernels &k, Packing packing, Rows rows)
        : k_(k), p_(packing), rows_(rows) {}

    size_t scratch_bytes() const override {
        return p_.norm ? sizeof(float) * p_.packer->granule * p_.n_cols : 0;
    }
    Tiling prepare(const Step &step) override {
        n_rows_ = count(step, rows_);
        const double ns_per_number = p_.norm ? 0.4 : 0.2;
        return {ceil_div(n_rows_, p_.packer->granule), n_rows_ * p_.n_cols * ns_per_number};
    }
    void tile(const Step &step, int index, void *scratch) override {
        const int first = index * p_.packer->granule;
        const int last = std::min(n_rows_, first + p_.packer->granule);
        const size_t n = p_.n_cols;
        Floats from = {p_.x, n};
        if (p_.norm) {
            auto *normed = static_cast<float *>(scratch);
            for (int row = first; row < last; row++)
                k_.rms_norm(normed + (row - first) * n, p_.x + row * n, p_.norm->w, p_.n_cols,
                            p_.norm->eps);
            from.x = normed - first * n;
        }
        p_.packer->pack(p_.packed, from, layout_rows(step, *p_.packer, n_rows_), p_.n_cols, first,
                        last, 0, p_.n_cols);
    }

private:
    const Kernels &k_;
    Packing p_;
    Rows rows_;
    int n_rows_ = 0;
};

}  // namespace

const Packer &packer_for(const Kernels &k, const std::string &type, bool precise) {
    return *k.packer(linear_kernel(k, type, precise).act);
}

OperationPtr make_pack(const Kernels &k, Packing packing, Rows rows) {
    return std::make_unique<PackOperation>(k, packing, rows);
}

}  // namespace unladen::cpu
