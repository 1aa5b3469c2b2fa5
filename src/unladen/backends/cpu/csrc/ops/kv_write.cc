// Writes keys and values of the step's tokens to the layer's cache.
#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct KVWrite {
    Input k, v;
    KVView kv;
    int first_column;

    explicit KVWrite(Fields &of) : k(of.input()), v(of.input()), kv(of.kv()),
                                    first_column(of.first_column()) {
        of.require(k.n_cols == kv.n_kv_heads * kv.k_dim && v.n_cols == kv.n_kv_heads * kv.v_dim,
                   "k or v has other columns than the cache's rows");
    }

    void add(Builder &to) const {
        to.add(by_rows(Rows::tokens, (k.n_cols + v.n_cols) * 0.3,
                       [a = *this, &kernels = to.kernels()](const Step &step, int row) {
            const int index = step.index[row];
            const int32_t *table = step.block_table + step.seq_of[row] * step.table_stride +
                                   a.first_column;
            kernels.kv_store(a.kv, table[index / a.kv.block_tokens],
                             index % a.kv.block_tokens, a.k.row(row), a.v.row(row));
        }));
    }
};

const Registered<KVWrite> registered("kv_write");

}  // namespace
}  // namespace unladen::cpu
