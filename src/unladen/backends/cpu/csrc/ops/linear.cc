// Products of one or several weights that share an input.
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/csrc/ops/operations.h"
#include "backends/cpu/csrc/ops/products.h"
#include "backends/cpu/csrc/ops/screening.h"

namespace unladen::cpu {
namespace {

// The node. It rounds x for the kernel of each weight; weights with the same layout of activations
// share the result.
struct LinearNode {
    Input x;
    std::vector<Matrix> weights;
    std::vector<Output> y;  // one per weight; one alone when gated
    std::optional<Activation> gated;
    const float *residual = nullptr;
    uint8_t *scratch;
    Joined joined;

    explicit LinearNode(Fields &of)
        : x(of.input()), y(of.outputs()), scratch(of.scratch()), joined(of.joined()) {
        for (size_t i = 0; i == 0 || of.has_weight(role("w", i)); i++)
            weights.push_back(of.matrix(role("w", i), role("b", i)));
        if (of.has_attribute("act")) gated = of.choice<Activation>("act");
        if (of.flag("residual")) {
            const Input to = of.input();
            of.require(to.n_cols == weights[0].n_rows, "the residual has another size than y");
            residual = to.data;
        }
        check(of);
    }

    static std::string role(const char *letter, size_t i) { return letter + std::to_string(i); }

    void check(const Fields &of) const {
        const size_t n_products = gated ? 1 : weights.size();
        of.require(!gated || (weights.size() == 2 && weights[0].n_rows == weights[1].n_rows),
                   "a gated product has two weights of one size");
        of.require(y.size() == n_products && (!residual || n_products == 1),
                   "it has another number of outputs");
        of.require(!joined.reader || (gated && !residual), "only a gated product is left packed");
        for (size_t i = 0; i < weights.size(); i++) {
            of.require(weights[i].n_cols == x.n_cols, "x has other columns than a weight");
            of.require(i >= n_products || weights[i].n_rows == y[i].n_cols,
                       "an output has other columns than its weight has rows");
        }
    }

    // Bytes for the rounded activations of the largest step.
    size_t scratch_bytes(const Sizing &sizing) const {
        std::set<const Packer *> packers;
        for (const Matrix &w : weights)
            packers.insert(&packer_for(sizing.kernels, w.type, sizing.precise));
        size_t total = 0;
        for (const Packer *packer : packers)
            total += whole_lines(packed_bytes(*packer, sizing.max_rows, x.n_cols));
        return total;
    }

    void add(Builder &to) const;
    std::vector<const uint8_t *> pack(Builder &to) const;
};

PackedOutput packed_output(const LinearNode &node, const Sizing &sizing) {
    const Joined::Reader &reader = *node.joined.reader;
    const Packer &packer = packer_for(sizing.kernels, reader.type, sizing.precise);
    if (packed_bytes(packer, sizing.max_rows, node.weights[0].n_rows) > reader.n_bytes)
        throw std::invalid_argument("no room for " + reader.type + "'s activations");
    return {&packer, reinterpret_cast<uint8_t *>(node.y[0].data)};
}

void LinearNode::add(Builder &to) const {
    const Sizing &sizing = to.sizing();
    Product product;
    product.weights = weights;
    const bool may_screen = joined.is_chosen_from && weights.size() == 1 && !residual;
    const Linear *screen = nullptr;
    if (may_screen && !sizing.precise)
        screen = find_screen(to.kernels(), product.weights[0], to.interleaving());
    if (!screen)
        for (Matrix &w : product.weights) w = to.with_copy(std::move(w));
    for (const Output &each : y) product.y.push_back(each.data);
    product.gated = gated;
    product.residual = residual;
    product.rows = x.rows;
    product.precise = sizing.precise;
    product.max_rows = sizing.max_rows;
    if (joined.reader) product.output = packed_output(*this, sizing);
    if (joined.is_packed)
        product.packed.push_back(reinterpret_cast<const uint8_t *>(x.data));
    else
        product.packed = pack(to);
    if (screen)
        to.shared<HeadScreening>()->screening = product.screening = std::make_shared<Screening>(
            to.kernels(), *screen, product.weights[0], product.packed[0], product.y[0]);
    to.add(make_product(to.kernels(), std::move(product)));
}

std::vector<const uint8_t *> LinearNode::pack(Builder &to) const {
    std::vector<const uint8_t *> packed;
    std::vector<Packing> made;
    uint8_t *room = scratch;
    for (const Matrix &w : weights) {
        Packing packing{&packer_for(to.kernels(), w.type, to.sizing().precise), x.data, w.n_cols,
                        std::nullopt, room};
        if (joined.norm)
            packing.norm = RowNorm{reinterpret_cast<const float *>(joined.norm->w),
                                   joined.norm->eps};
        for (const Packing &known : made)
            if (known.packer == packing.packer) packing.packed = known.packed;
        packed.push_back(packing.packed);
        if (packing.packed != room) continue;
        room += whole_lines(packed_bytes(*packing.packer, to.sizing().max_rows, w.n_cols));
        to.add(make_pack(to.kernels(), packing, x.rows));
        made.push_back(packing);
    }
    return packed;
}

const Registered<LinearNode> registered("linear");

}  // namespace
}  // namespace unladen::cpu
