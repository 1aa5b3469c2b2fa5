// Products with rounded activations.
#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "backends/cpu/csrc/ops/products.h"
#include "backends/cpu/csrc/ops/screening.h"

namespace unladen::cpu {
namespace {

// Some of the rows of a matrix, or of the tokens of a step.
struct Range {
    int first, last;
    int size() const { return last - first; }
};

// A matrix at x, with `stride` numbers from row to row.
struct Grid {
    float *x;
    size_t stride;
    float *row(int t) const { return x + t * stride; }
};

class ProductOperation final : public Operation {
public:
    ProductOperation(const Kernels &k, Product product) : k_(k), a_(std::move(product)) {
        for (const Matrix &w : a_.weights)
            kernels_.push_back(a_.screening ? &a_.screening->kernel()
                                            : &linear_kernel(k, w.type, a_.precise));
        layout_rows_.resize(kernels_.size());
    }

    size_t scratch_bytes() const override {
        const size_t n = a_.output ? std::min(a_.max_rows, chunk_tokens) : a_.max_rows;
        const size_t few = few_rows * max_tile_rows;
        const size_t products = a_.gated ? 2 * std::max(few, n * piece_rows) : 0;
        const size_t hidden = a_.output ? std::max(few, n * whole(piece_rows)) : 0;
        return sizeof(float) * std::max(products + hidden, few);
    }

    Tiling prepare(const Step &step) override {
        n_rows_ = count(step, a_.rows);
        for (size_t i = 0; i < kernels_.size(); i++)
            layout_rows_[i] = layout_rows(step, *k_.packer(kernels_[i]->act), n_rows_);
        first_tile_.assign(1, 0);
        tile_rows_.clear();
        double ns = 0;
        const size_t n_products = a_.gated ? 1 : a_.weights.size();
        int n_all = 0;
        for (size_t i = 0; i < n_products; i++) n_all += a_.weights[i].n_rows;
        for (size_t i = 0; i < n_products; i++) {
            const Matrix &w = a_.weights[i];
            tile_rows_.push_back(rows_per_tile(w, *kernels_[i], n_all));
            first_tile_.push_back(first_tile_.back() + ceil_div(w.n_rows, tile_rows_[i]));
            ns += cost(w, *kernels_[i]) * (a_.gated ? 2 : 1);
        }
        n_chunks_ = a_.output ? ceil_div(n_rows_, chunk_tokens) : 1;
        screens_ = a_.screening && a_.screening->begin(step, n_rows_);
        const bool one = n_rows_ == 1;
        return {n_rows_ ? first_tile_.back() * n_chunks_ : 0, ns, one, one};
    }

    // For one activation, computes all rows of the tiles at once, since at the start of each
    // product neither processor nor memory is busy.
    void tiles(const Step &step, int first, int last, void *scratch) override {
        if (n_rows_ != 1) return Operation::tiles(step, first, last, scratch);
        for (size_t i = 0; first < last; i++) {
            const int end = std::min(last, first_tile_[i + 1]);
            if (first >= end) continue;
            const int n_rows = a_.weights[i].n_rows;
            const int most = joint_rows / tile_rows_[i] * tile_rows_[i];
            const int begin = (first - first_tile_[i]) * tile_rows_[i];
            const int stop = std::min(n_rows, (end - first_tile_[i]) * tile_rows_[i]);
            for (int row = begin; row < stop; row += most)
                single(step, i, {row, std::min(stop, row + most)}, static_cast<float *>(scratch));
            first = end;
        }
    }

    void tile(const Step &step, int index, void *scratch) override {
        const int chunk = index % n_chunks_ * chunk_tokens;
        const int end = n_chunks_ == 1 ? n_rows_ : std::min(n_rows_, chunk + chunk_tokens);
        const Range tokens = {chunk, end};
        const auto [i, rows] = part_at(index / n_chunks_);
        const size_t n = a_.weights[i].n_rows;
        if (a_.gated)
            gated_tile(step, rows, tokens, static_cast<float *>(scratch));
        else
            product(i, {a_.y[i], n}, rows, tokens);
        if (a_.residual) add_residual(rows, n);
        note(rows);
    }

    // With one activation.
    void compute(const Step &, int index, void *scratch) override {
        const auto [i, rows] = part_at(index);
        auto *sums = static_cast<float *>(scratch);
        const Grid y = {sums - rows.first, 0};
        if (a_.gated)
            gated_pieces(rows, {0, 1}, sums + rows.size(), y);
        else
            product(i, y, rows, {0, 1});
    }
    void commit(const Step &step, int index, void *scratch) override {
        const auto [i, rows] = part_at(index);
        auto *sums = static_cast<float *>(scratch);
        float *y = a_.y[i] + rows.first;
        if (a_.output)
            pack(step, sums, rows, {0, 1});
        else if (a_.residual)
            k_.add(y, sums, a_.residual + rows.first, rows.size());
        else
            std::copy(sums, sums + rows.size(), y);
        note(rows);
    }

private:
    // Some rows of a matrix.
    struct MatrixPart {
        size_t matrix;
        Range rows;
    };

    // The most rows of a tile; rows of a tile for many activations; up to how many activations are
    // few.
    static constexpr int max_tile_rows = 256, piece_rows = 64, few_rows = 16;
    // How many rows of several tiles of one activation fit into the scratch memory.
    static constexpr int joint_rows = few_rows * max_tile_rows;
    // Tokens of a tile that rounds its result: threads then finish together, and all data stay in
    // L2.
    static constexpr int chunk_tokens = 256;

    // Rows of a tile: so many that sharing it costs little, and so few that threads finish
    // together. Steps of few activations wait for weights, which are read fastest in long
    // stretches. n_all: rows of all matrices, which threads share as if they were one.
    int rows_per_tile(const Matrix &w, const Linear &kernel, int n_all) const {
        const double bytes = static_cast<double>(kernel.row_bytes(w.n_cols));
        int rows = piece_rows;
        if (n_rows_ == 1)
            rows = static_cast<int>(std::min(n_all / 64.0, 262144 / std::max(1.0, bytes)));
        if (n_rows_ > 1 && n_rows_ <= few_rows) rows = std::max(rows, w.n_rows / 16);
        return whole(std::clamp(rows, 16, max_tile_rows));
    }

    // n_rows, rounded up to whole granules of the kernels and blocks of the output.
    int whole(int n_rows) const {
        int granule = a_.output ? a_.output->packer->block : 1;
        for (const Linear *kernel : kernels_) granule = std::lcm(granule, kernel->row_granule);
        return ceil_div(n_rows, granule) * granule;
    }

    MatrixPart part_at(int tile) const {
        size_t i = 0;
        while (tile >= first_tile_[i + 1]) i++;
        const int first = (tile - first_tile_[i]) * tile_rows_[i];
        return {i, {first, std::min(a_.weights[i].n_rows, first + tile_rows_[i])}};
    }

    double cost(const Matrix &w, const Linear &kernel) const {
        double weights = static_cast<double>(w.n_rows) * w.n_cols;
        double per_weight = kernel.act == ActFormat::f32 ? 0.06 : 0.03;
        return weights * per_weight * std::max(1.0, n_rows_ * 0.4);
    }

    // y begins at row 0 and token 0; `next`: see Weights.
    void product(size_t i, Grid y, Range rows, Range tokens, const uint8_t *next = nullptr) const {
        const Matrix &w = a_.weights[i];
        multiply(*kernels_[i], w, 0, y.x, y.stride, rows.first, rows.last, a_.packed[i],
                 layout_rows_[i], tokens.first, tokens.last, {screens_, next});
        if (!w.bias) return;
        for (int t = tokens.first; t < tokens.last; t++)
            for (int n = rows.first; n < rows.last; n++) y.row(t)[n] += w.bias[n];
    }

    // One activation times some rows. The residual is added before sums are stored: a store to
    // lines that other cores have read waits until these cores have given them up.
    void single(const Step &step, size_t i, Range rows, float *room) const {
        if (a_.gated) return gated_tile(step, rows, {0, 1}, room);
        float *y = a_.y[i];
        if (!a_.residual) {
            product(i, {y, 0}, rows, {0, 1});
            return note(rows);
        }
        product(i, {room - rows.first, 0}, rows, {0, 1});
        k_.add(y + rows.first, room, a_.residual + rows.first, rows.size());
    }

    void note(Range rows) const {
        if (screens_) a_.screening->note(rows.first, rows.last);
    }

    void gated_tile(const Step &step, Range rows, Range tokens, float *room) const {
        const int n = a_.weights[0].n_rows;
        if (!a_.output) return gated_pieces(rows, tokens, room, {a_.y[0], size_t(n)});
        const size_t width = rows.size();
        float *hidden = room + 2 * size_t(tokens.size()) * std::min(rows.size(), piece(rows));
        gated_pieces(rows, tokens, room, {hidden - tokens.first * width - rows.first, width});
        pack(step, hidden, rows, tokens);
    }

    // Rounds the result of a gated product for these rows and tokens.
    void pack(const Step &step, const float *hidden, Range rows, Range tokens) const {
        const Packer &packer = *a_.output->packer;
        const size_t width = rows.size();
        packer.pack(a_.output->packed, {hidden - tokens.first * width, width},
                    layout_rows(step, packer, n_rows_), a_.weights[0].n_rows, tokens.first,
                    tokens.last, rows.first, rows.last);
    }

    // How many rows a gated product computes before it applies the unit. With many activations they
    // must fit into L2.
    int piece(Range rows) const { return n_rows_ <= few_rows ? rows.size() : piece_rows; }

    void gated_pieces(Range rows, Range tokens, float *room, Grid y) const {
        const int most = piece(rows);
        for (int first = rows.first; first < rows.last; first += most) {
            const Range part = {first, std::min(rows.last, first + most)};
            const size_t n = part.size();
            // Kernels address rows and tokens from 0, so these addresses are shifted back.
            const Grid gate = {room - tokens.first * n - first, n};
            const Grid up = {gate.x + n * tokens.size(), n};
            product(0, gate, part, tokens, place_of(1, part.first));
            product(1, up, part, tokens, place_of(0, part.last));
            for (int t = tokens.first; t < tokens.last; t++)
                k_.glu(y.row(t) + first, gate.row(t) + first, up.row(t) + first, part.size(),
                       *a_.gated);
        }
    }

    // The address of row `row` of a matrix, in its copy if there is one; nullptr after the last
    // row.
    const uint8_t *place_of(size_t i, int row) const {
        const Matrix &w = a_.weights[i];
        if (row == w.n_rows) return nullptr;
        const uint8_t *apart = w.data + row * kernels_[i]->row_bytes(w.n_cols);
        const uint8_t *moved = w.copy ? w.copy->find(apart) : nullptr;
        return moved ? moved : apart;
    }

    void add_residual(Range rows, size_t stride) const {
        for (int t = 0; t < n_rows_; t++) {
            size_t at = t * stride + rows.first;
            k_.add(a_.y[0] + at, a_.y[0] + at, a_.residual + at, rows.size());
        }
    }

    const Kernels &k_;
    Product a_;
    std::vector<const Linear *> kernels_;
    std::vector<int> first_tile_, tile_rows_;
    std::vector<int> layout_rows_;
    int n_rows_ = 0, n_chunks_ = 1;
    bool screens_ = false;
};

}  // namespace

const Linear &linear_kernel(const Kernels &k, const std::string &type, bool precise) {
    const Linear *kernel = k.linear(type.c_str(), precise);
    if (!kernel) throw std::invalid_argument("no kernel for weights of type " + type);
    return *kernel;
}

void multiply(const Linear &kernel, const Matrix &w, int base, float *y, size_t y_stride,
              int n_first, int n_last, const void *act, int n_rows, int t_first, int t_last,
              ReadHints hints) {
    const size_t row = kernel.row_bytes(w.n_cols);
    const uint8_t *rows = w.data + row * base;
    int split = n_first;
    if (w.copy) {
        const size_t at = static_cast<size_t>(rows - w.copy->from);
        if (w.copy->n_done > at) {
            const size_t n_there = (w.copy->n_done - at) / row;
            split = static_cast<int>(std::clamp<size_t>(n_there, n_first, n_last));
        }
        const auto run = hints.screens ? kernel.screen->run : kernel.run;
        Weights there = w.copy->weights_at(at / row);
        there.next = hints.next;
        if (split > n_first)
            run(y, y_stride, there, n_first, split, w.n_cols, act, n_rows, t_first, t_last);
    }
    if (split < n_last)
        kernel.run(y, y_stride, {.data = rows, .next = hints.next}, split, n_last, w.n_cols, act,
                   n_rows, t_first, t_last);
}

Matrix Builder::with_copy(Matrix w, int rows_apart) {
    if (w.n_rows && rows_apart % interleaved_rows == 0)
        w.copy = interleaving_.add(linear_kernel(kernels(), w.type, sizing_.precise), w.data,
                                   w.n_rows, w.n_cols);
    return w;
}

OperationPtr make_product(const Kernels &k, Product product) {
    return std::make_unique<ProductOperation>(k, std::move(product));
}

}  // namespace unladen::cpu
