// Packing of activations.
#include <algorithm>

#include "backends/cpu/csrc/ops/ops.h"

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
        if (p_.by_readers && n_rows_ == 1) return {0, 0};
        const double ns_per_number = p_.norm ? 0.4 : 0.2;
        return {ceil_div(n_rows_, p_.packer->granule), n_rows_ * p_.n_cols * ns_per_number};
    }
    void tile(const Step &step, int index, void *scratch) override {
        const int first = index * p_.packer->granule;
        p_.run(k_, step, n_rows_, first, std::min(n_rows_, first + p_.packer->granule), p_.packed,
               static_cast<float *>(scratch));
    }

private:
    const Kernels &k_;
    Packing p_;
    Rows rows_;
    int n_rows_ = 0;
};

}  // namespace

void Packing::run(const Kernels &k, const Step &step, int n_rows, int first, int last, uint8_t *to,
                  float *room) const {
    const size_t n = n_cols;
    Floats from = {x, n};
    if (norm) {
        for (int row = first; row < last; row++)
            k.rms_norm(room + (row - first) * n, x + row * n, norm->w, n_cols, norm->eps);
        from.x = room - first * n;
    }
    packer->pack(to, from, layout_rows(step, *packer, n_rows), n_cols, first, last, 0, n_cols);
}

OperationPtr make_pack(const Kernels &k, Packing packing, Rows rows) {
    return std::make_unique<PackOperation>(k, packing, rows);
}

}  // namespace unladen::cpu
