// Collects the operations of a segment while it is compiled.
#pragma once

#include <map>
#include <memory>
#include <typeindex>
#include <utility>
#include <vector>

#include "backends/cpu/csrc/ops/fields.h"
#include "backends/cpu/csrc/ops/interleaving.h"
#include "backends/cpu/csrc/program.h"

namespace unladen::cpu {

using OperationPtr = std::unique_ptr<Operation>;

inline int ceil_div(int a, int b) { return (a + b - 1) / b; }

// The values on which kernels and bytes of working memory depend. `max_rows`: tokens or outputs of
// the largest step. `precise`: activations stay float32 in products with quantized weights.
struct Sizing {
    const Kernels &kernels;
    int max_rows;
    bool precise;
};

class Builder {
public:
    Builder(Program &program, Sizing sizing) : program_(program), sizing_(sizing) {}

    const Kernels &kernels() const { return sizing_.kernels; }
    const Sizing &sizing() const { return sizing_; }
    Interleaving &interleaving() { return interleaving_; }

    void add(OperationPtr op) { program_.add(std::move(op)); }
    void add(std::vector<OperationPtr> phases) {
        for (OperationPtr &op : phases) add(std::move(op));
    }
    // w with its interleaved copy, if its kernel reads one. `rows_apart`: parts of w that are
    // multiplied separately begin at multiples of so many rows.
    Matrix with_copy(Matrix w, int rows_apart = interleaved_rows);
    // The object of type T that the operations of this program share.
    template <class T>
    std::shared_ptr<T> shared() {
        std::shared_ptr<void> &found = shared_[typeid(T)];
        if (!found) found = std::make_shared<T>();
        return std::static_pointer_cast<T>(found);
    }

private:
    Program &program_;
    Sizing sizing_;
    Interleaving interleaving_;
    std::map<std::type_index, std::shared_ptr<void>> shared_;
};

}  // namespace unladen::cpu
